"""Typed configuration spaces: read them from a candidate's source, sweep them, write the winner into the source.

A candidate may carry two literals at module level. `CONFIG` holds the value of each knob, which its launches read as
`CONFIG["BLOCK_M"]`. `SPACE` holds the values that each knob may take, by stage. A sweep costs no model call. This room
works on text and on the syntax tree: it runs no candidate.
"""

from egg_graph.tuning.literals import Knobs, read_knobs
from egg_graph.tuning.rewrite import bake, finish
from egg_graph.tuning.sweep import best, configurations, left_out, spanned

__all__ = ["Knobs", "bake", "best", "configurations", "finish", "left_out", "read_knobs", "spanned"]

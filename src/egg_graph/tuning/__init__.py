"""Typed configuration spaces: read them from a candidate's source, sweep them, bake the winner in.

A candidate may carry two literals at module level: `CONFIG`, the knobs as they stand, which its launches read as
`CONFIG["BLOCK_M"]`; and `SPACE`, the values each knob may take, by stage. An agent chooses structure and space once;
the sweep over it costs no model call. Everything here works on text and on the syntax tree: no candidate is run.
"""

from egg_graph.tuning.literals import parse_space
from egg_graph.tuning.rewrite import bake, finish
from egg_graph.tuning.sweep import best, configurations

__all__ = ["bake", "best", "configurations", "finish", "parse_space"]

"""Typed configuration spaces: read them from a candidate's source, sweep them, write the winner into the source.

A candidate may carry two literals at module level. `CONFIG` holds the value of each knob, which its launches read as
`CONFIG["BLOCK_M"]`. `SPACE` holds the values that each knob may take, by stage. A sweep costs no model call. This room
works on text and on the syntax tree: it runs no candidate. A store remembers which configuration won where.
"""

from egg_graph.tuning.literals import Knobs, parse, read_knobs
from egg_graph.tuning.reading import unread
from egg_graph.tuning.rewrite import bake, finish
from egg_graph.tuning.sweep import best, configurations, joined, left_out, spanned
from egg_graph.tuning.winners import (
    Winner,
    add_winner,
    check_store,
    find_winner,
    read_store,
    situation_of,
    stores,
    user_store,
)

__all__ = [
    "Knobs",
    "Winner",
    "add_winner",
    "bake",
    "best",
    "check_store",
    "configurations",
    "find_winner",
    "finish",
    "joined",
    "left_out",
    "parse",
    "read_knobs",
    "read_store",
    "situation_of",
    "spanned",
    "stores",
    "unread",
    "user_store",
]

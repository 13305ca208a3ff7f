"""Which module-level names of a reference `Model` reads itself, rather than by its arguments and inputs.

`Model` is always that of the source as written, so a size that it reads has to be the full one in `get_inputs` as well:
a cache whose blocks hold 16 tokens means nothing to a forward that divides by 32.
"""

from __future__ import annotations

import symtable
from collections.abc import Iterator
from functools import lru_cache

from egg_graph.evaluator.problem.knobs import parse_reference


@lru_cache(maxsize=8)
def names_read_by_model(source: str) -> frozenset[str]:
    """The module-level names that `Model` reads, and those that functions and classes read which it calls by name.

    What such a name is made of does not count: a scale that comes of a width may stay as it is at another width.

    Raises:
        BadInput: if the source is not Python.
    """
    parse_reference(source)
    tables = {table.get_name(): table for table in symtable.symtable(source, "<reference>", "exec").get_children()}
    read: set[str] = set()
    waiting = ["Model"] if "Model" in tables else []
    while waiting:
        new = {name for name in _globals_of(tables.pop(waiting.pop())) if name not in read}
        read |= new
        waiting += [name for name in new if name in tables and name not in waiting]
    return frozenset(read)


def _globals_of(table: symtable.SymbolTable) -> Iterator[str]:
    """Module-level names that a scope reads, and those within it."""
    for symbol in table.get_symbols():
        if symbol.is_global() and symbol.is_referenced():
            yield symbol.get_name()
    for inner in table.get_children():
        yield from _globals_of(inner)

"""Which module-level names of a reference `Model` reads itself, rather than by its arguments and inputs.

`Model` is always that of the source as written, so a size that it reads has to be the full one in `get_inputs` as well:
a cache whose blocks hold 16 tokens means nothing to a forward that divides by 32.
"""

from __future__ import annotations

import symtable
from collections.abc import Iterator
from functools import lru_cache

from egg_graph.evaluator.problem.knobs import names_assigned_from, parse_reference, reachable_names


@lru_cache(maxsize=8)
def names_read_by_model(source: str) -> frozenset[str]:
    """The module-level names that `Model` reads, itself or in functions and classes that it calls by name, and those
    that such a name is made of: a scale that comes of a width stands for that width.

    Raises:
        BadInput: if the source is not Python.
    """
    reads = names_assigned_from(parse_reference(source))
    for table in symtable.symtable(source, "<reference>", "exec").get_children():
        reads.setdefault(table.get_name(), set()).update(_globals_of(table))
    return frozenset(reachable_names(reads, ["Model"]))


def _globals_of(table: symtable.SymbolTable) -> Iterator[str]:
    """Module-level names that a scope reads, and those within it."""
    for symbol in table.get_symbols():
        if symbol.is_global() and symbol.is_referenced():
            yield symbol.get_name()
    for inner in table.get_children():
        yield from _globals_of(inner)

"""Which module-level names of a reference `Model` reads itself, rather than by its arguments and inputs.

`Model` is always that of the source as written, so a size that it reads has to be the full one in `get_inputs` as well:
a cache whose blocks hold 16 tokens means nothing to a forward that divides by 32.
"""

from __future__ import annotations

import ast
import symtable
from collections.abc import Iterator
from functools import lru_cache

from egg_graph.evaluator.problem.knobs import parse_reference


@lru_cache(maxsize=8)
def names_read_by_model(source: str) -> frozenset[str]:
    """The module-level names that `Model` reads, itself or in functions and classes that it calls by name, and those
    that such a name is made of: a scale that comes of a width stands for that width.

    Raises:
        BadInput: if the source is not Python.
    """
    made_of = _made_of(parse_reference(source))
    tables = {table.get_name(): table for table in symtable.symtable(source, "<reference>", "exec").get_children()}
    read, waiting = set[str](), ["Model"]
    while waiting:
        name = waiting.pop()
        if name not in read:
            read.add(name)
            waiting += made_of.get(name, ())
            waiting += _globals_of(tables[name]) if name in tables else ()
    return frozenset(read)


def _made_of(tree: ast.Module) -> dict[str, set[str]]:
    """The names that each module-level assignment reads, by the name that it gives."""
    found: dict[str, set[str]] = {}
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            given = {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}
            for name in given:
                reads = {node.id for node in ast.walk(statement.value) if isinstance(node, ast.Name)}
                found.setdefault(name, set()).update(reads)
    return found


def _globals_of(table: symtable.SymbolTable) -> Iterator[str]:
    """Module-level names that a scope reads, and those within it."""
    for symbol in table.get_symbols():
        if symbol.is_global() and symbol.is_referenced():
            yield symbol.get_name()
    for inner in table.get_children():
        yield from _globals_of(inner)

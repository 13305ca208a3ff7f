"""Say in one line, before anything starts, that a reference imports what this machine does not have."""

import ast
import sys
from collections.abc import Iterator
from importlib.util import find_spec

from egg_graph.evaluator.problem.knobs import parse_reference
from egg_graph.schema import BadInput


def require_imports(source: str) -> None:
    """Look for the modules that a reference imports at its top level; nothing is imported.

    A reference that changes where Python looks for modules is not looked at.

    Raises:
        BadInput: if it is not Python, or a module is not installed.
    """
    tree = parse_reference(source)
    if "sys.path" in source:
        return
    for line, name in _imported(tree):
        if name not in sys.modules and find_spec(name) is None:
            raise BadInput(
                f"reference, line {line}: it imports {name}, which is not installed here; "
                "install it, or write the reference without it"
            )


def _imported(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and package of every import that runs whatever happens: none inside a `try`, an `if` or a function."""
    for statement in tree.body:
        if isinstance(statement, ast.Import):
            yield from ((statement.lineno, alias.name.split(".")[0]) for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
            yield statement.lineno, statement.module.split(".")[0]

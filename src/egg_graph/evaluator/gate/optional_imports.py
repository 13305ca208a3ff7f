"""Leave out optional imports of other packages: in a `try` that expects them to fail, or in a function.

Kernels of libraries ask so for what may be installed, or import what another branch needs. No such package is there for
a candidate, and the import fails as on a machine without it. So do relative imports: a candidate is one module. Lines
keep their numbers.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence

from egg_graph.evaluator.gate.rules import ROOTS, import_refused
from egg_graph.schema.syntax import UNREADABLE, syntax_tree

EXPECTED = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})
"""Names of exceptions that a handler catches where an import fails."""
Import = ast.Import | ast.ImportFrom


def without_optional_imports(source: str) -> tuple[str, tuple[str, ...]]:
    """Return a source whose optional imports of other packages fail, and these imports.

    Python's own modules are no such packages: the gate judges them.

    Args:
        source: any text; what is no Python is returned as it is.
    """
    try:
        tree = syntax_tree(source)
    except UNREADABLE:
        return source, ()
    left_out = [node for node in _optional(tree.body, optional=False) if _is_of_another_package(node)]
    if not left_out:
        return source, ()
    lines = source.splitlines(keepends=True)
    for node in left_out:
        assert node.end_lineno is not None
        indent = lines[node.lineno - 1][: node.col_offset]
        lines[node.lineno - 1] = f"{indent}{_failure(node)}\n"
        lines[node.lineno : node.end_lineno] = ["\n"] * (node.end_lineno - node.lineno)
    changed = "".join(lines)
    try:
        same = ast.dump(syntax_tree(changed)) == ast.dump(_Failing(left_out).visit(tree))
    except SyntaxError:
        same = False
    if not same:  # two statements on one line
        return source, ()
    return changed, tuple(ast.unparse(node) for node in left_out)


class _Failing(ast.NodeTransformer):
    """Puts what raises an ImportError in the place of imports."""

    def __init__(self, imports: Sequence[Import]) -> None:
        self.imports = imports

    def _visit(self, node: Import) -> ast.stmt:
        return syntax_tree(_failure(node)).body[0] if node in self.imports else node

    visit_Import = visit_ImportFrom = _visit


def _failure(node: Import) -> str:
    return f"raise ImportError({f'{_modules(node)[0]} is not there for a kernel'!r})"


def _optional(body: Sequence[ast.AST], *, optional: bool) -> Iterator[Import]:
    """Yield the imports that may fail, or may never be reached."""
    for node in body:
        if isinstance(node, Import):
            if optional:
                yield node
        elif isinstance(node, ast.Try):
            yield from _optional(node.body, optional=optional or _expects(node))
            rest = [*node.handlers, *node.orelse, *node.finalbody]
            yield from _optional(rest, optional=optional)
        else:
            inside = optional or isinstance(node, ast.FunctionDef)
            yield from _optional(list(ast.iter_child_nodes(node)), optional=inside)


def _expects(node: ast.Try) -> bool:
    """Whether a handler catches an import that fails."""
    caught = [handler.type for handler in node.handlers]
    names = [inner.id for kind in caught if kind is not None for inner in ast.walk(kind) if isinstance(inner, ast.Name)]
    return None in caught or not EXPECTED.isdisjoint(names)


def _is_of_another_package(node: Import) -> bool:
    if isinstance(node, ast.ImportFrom) and node.level:
        return True
    roots = {module.split(".")[0] for module in _modules(node)}
    refused = any(import_refused(module) for module in _modules(node))
    return refused and roots.isdisjoint(ROOTS | sys.stdlib_module_names)


def _modules(node: Import) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return ["." * node.level + (node.module or "")]

"""Leave statements of a module out; lines keep their numbers."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from egg_graph.schema.syntax import syntax_tree


def blanked(source: str, tree: ast.Module, left_out: Sequence[ast.stmt]) -> str | None:
    """Return a source without some of its module's statements.

    Args:
        source: of the module.
        tree: of that source.
        left_out: statements of `tree.body`.

    Returns:
        The source; None where another statement stands on one of their lines.
    """
    lines = source.splitlines(keepends=True)
    for node in left_out:
        assert node.end_lineno is not None
        lines[node.lineno - 1 : node.end_lineno] = ["\n"] * (node.end_lineno - node.lineno + 1)
    shorter = "".join(lines)
    kept = ast.Module([node for node in tree.body if node not in left_out], [])
    try:
        return shorter if ast.dump(syntax_tree(shorter)) == ast.dump(kept) else None
    except SyntaxError:
        return None

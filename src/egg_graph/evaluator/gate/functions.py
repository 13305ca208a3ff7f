"""The functions that a candidate defines."""

import ast

from egg_graph.schema.syntax import syntax_tree


def functions_of(source: str) -> frozenset[str]:
    """Return the names of all functions that a source defines: among them are its kernels, whichever it launches.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: as `syntax_tree`.
    """
    return frozenset(node.name for node in ast.walk(syntax_tree(source)) if isinstance(node, ast.FunctionDef))

"""Leave out what gives an older PyTorch or Triton a name that this one has.

Libraries begin so: `if "all_gather_into_tensor" not in dir(torch.distributed): …`. Where this PyTorch has no such name
either, the code that uses it fails and tells so.
"""

from __future__ import annotations

import ast

from egg_graph.evaluator.gate.blanking import blanked
from egg_graph.schema.syntax import UNREADABLE, syntax_tree


def without_backports(source: str) -> tuple[str, tuple[str, ...]]:
    """Return a source without its backports, and the condition of each.

    Args:
        source: any text; what is no Python is returned as it is.
    """
    try:
        tree = syntax_tree(source)
    except UNREADABLE:
        return source, ()
    left_out = [node for node in tree.body if isinstance(node, ast.If) and not node.orelse and _is_missing(node.test)]
    shorter = blanked(source, tree, left_out) if left_out else None
    if shorter is None:
        return source, ()
    return shorter, tuple(ast.unparse(node.test) for node in left_out)


def _is_missing(test: ast.expr) -> bool:
    """Whether a condition asks if a library lacks a name, by `dir` or by `hasattr`."""
    match test:
        case ast.Compare(
            left=ast.Constant(value=str()), ops=[ast.NotIn()], comparators=[ast.Call(ast.Name("dir"), [library], [])]
        ):
            return _is_library(library)
        case ast.UnaryOp(op=ast.Not(), operand=ast.Call(ast.Name("hasattr"), [library, ast.Constant(value=str())], [])):
            return _is_library(library)
    return False


def _is_library(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id in ("torch", "triton", "tl")

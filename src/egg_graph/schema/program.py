"""The program that a source is, whatever its comments, docstrings and formatting."""

import ast
import hashlib
from functools import lru_cache

from egg_graph.schema.syntax import UNREADABLE, syntax_tree


@lru_cache(maxsize=2048)
def program_digest(source: str) -> str:
    """SHA-256 of a source's syntax tree without comments, docstrings and formatting, as 12 hex digits.

    A text that does not parse, or holds no statement, counts as it is.
    """
    try:
        tree = syntax_tree(source)
        for node in ast.walk(tree):
            _drop_docstring(node)
        text = ast.dump(tree) if tree.body else source
    except UNREADABLE:
        text = source
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _drop_docstring(node: ast.AST) -> None:
    if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return
    match node.body:
        case [ast.Expr(value=ast.Constant(value=str())), *rest]:
            node.body = rest

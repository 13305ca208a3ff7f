"""Parsing Python that nobody vouches for."""

import ast
import warnings


def parsed(source: str) -> ast.Module | None:
    """The syntax tree, or None where the text is no Python (or more than the parser can take)."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "\d" in a docstring is the model's affair
            tree = ast.parse(source)
            compile(tree, "<module>", "exec")  # finds what the grammar allows but Python does not: a stray `return`
            return tree
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def defines_class(tree: ast.Module, name: str) -> bool:
    """Does the module define this class at top level?"""
    return any(isinstance(node, ast.ClassDef) and node.name == name for node in tree.body)

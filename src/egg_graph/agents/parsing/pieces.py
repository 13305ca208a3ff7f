"""Pieces of Python: their top-level statements by name, and statements added to them."""

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from egg_graph.agents.parsing.module import defined, header_end, is_future_import, parse_python, span

ENTRY = "ModelNew"
"""The class that a module has to define."""
REFERENCE = "Model"
"""The class of the reference, which belongs in no module."""
WHOLE = "Answer again with one fenced Python block that holds the whole module, `class ModelNew(nn.Module)` included."
"""The request that follows an answer from which no module can be made."""

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


_METHODS = ("__init__", "forward")


@dataclass(frozen=True)
class Piece:
    """A piece of Python that parses."""

    text: str
    tree: ast.Module
    where: str
    """Where it stands, for what is told about it."""

    @classmethod
    def read(cls, text: str, where: str) -> "Piece | None":
        """The piece; None for what is no Python."""
        tree = parse_python(text)
        return None if tree is None else cls(text, tree, where)

    def source(self, node: ast.stmt) -> str:
        """The lines of a statement, without the indentation of the first."""
        lines, indent = span(node), self.indent(node)
        return "\n".join(row.removeprefix(indent) for row in self._rows[lines.start - 1 : lines.stop - 1])

    def indent(self, node: ast.stmt) -> str:
        """The white space before a statement."""
        row = self._rows[span(node).start - 1]
        return row[: len(row) - len(row.lstrip())]

    @cached_property
    def _rows(self) -> list[str]:
        return self.text.split("\n")

    @cached_property
    def binding(self) -> dict[str, list[ast.stmt]]:
        """The top-level statements that bind each name."""
        found: dict[str, list[ast.stmt]] = {}
        for node in self.tree.body:
            for name in defined(node):
                found.setdefault(name, []).append(node)
        return found

    @cached_property
    def methods(self) -> dict[str, list[ast.stmt]]:
        """The methods of its classes, by name."""
        found: dict[str, list[ast.stmt]] = {}
        for node in self.tree.body:
            for method in node.body if isinstance(node, ast.ClassDef) else ():
                if isinstance(method, ast.FunctionDef):
                    found.setdefault(method.name, []).append(method)
        return found

    @cached_property
    def entries(self) -> list[ast.ClassDef]:
        """The definitions of ModelNew at top level."""
        return [node for node in self.tree.body if isinstance(node, ast.ClassDef) and node.name == ENTRY]


def is_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def is_elided(node: ast.AST) -> bool:
    """True for a definition that stands for one given elsewhere: `...`, `pass` or NotImplementedError is all it says.

    A class is elided where its `forward` or `__init__` is, or where it has no body at all and inherits none.
    """
    if isinstance(node, ast.ClassDef):
        named = [part for part in node.body if isinstance(part, ast.FunctionDef) and part.name in _METHODS]
        bare = all(isinstance(base, ast.Attribute) and base.attr == "Module" for base in node.bases)
        return any(map(is_elided, named)) or (bare and all(map(_says_nothing, node.body)))
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and all(map(_says_nothing, node.body))


def _says_nothing(node: ast.stmt) -> bool:
    if isinstance(node, ast.Raise):
        raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        return isinstance(raised, ast.Name) and raised.id == "NotImplementedError"
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def insert(text: str, imports: Iterable[str], others: Iterable[str]) -> str:
    """Add statements: imports behind the docstring and the `__future__` imports, others behind all imports.

    Args:
        text: a module that parses.
    """
    tree = parse_python(text)
    statements = () if tree is None else tree.body
    head, body = header_end(statements, is_future_import), header_end(statements, is_import)
    lines, added = text.split("\n"), [f"\n\n{source}" for source in others]
    rest = "\n".join(lines[body:])
    if added:
        rest = "\n\n" + rest.lstrip("\n")
    return "\n".join([*lines[:head], *imports, *lines[head:body], *added, rest])

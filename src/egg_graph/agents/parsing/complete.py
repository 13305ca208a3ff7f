"""Complete a module that leaves out what other code before it defines."""

import ast
from collections.abc import Sequence

from egg_graph.agents.parsing.module import Module, defined, parse_python, span, undefined_names, without
from egg_graph.agents.parsing.pieces import ENTRY, REFERENCE, Definition, Piece, insert, is_elided, is_import


def complete(piece: Piece, donors: Sequence[Piece]) -> Module:
    """Add what a module reads and does not define, or elides, and what a donor defines; ModelNew gets its methods so.

    Args:
        piece: a piece with ModelNew.
        donors: pieces to take from, the preferred one first.
    """
    mended: list[str] = []
    for donor in donors:
        piece, line = _with_methods(piece, donor)
        mended += line
    lost = _elided(piece, donors)
    missing = (undefined_names(piece.text, piece.tree) | {node.name for node in lost}) - {REFERENCE}
    gone = set(lost)
    kept = [node for node in piece.tree.body if node not in gone]
    own = {name for node in kept for name in defined(node)}
    imports: list[str] = []
    others: list[str] = []
    for donor in donors:
        taken = _take(donor, missing, own)
        imports += [donor.source(node) for node in taken if is_import(node)]
        others += [donor.source(node) for node in taken if not is_import(node)]
        names = sorted({name for node in taken for name in defined(node)})
        mended += [f"{', '.join(names)} taken from {donor.where}"] if names else []
    text = "\n".join(without(piece.text.split("\n"), lost, kept))
    return Module(insert(text, imports, others) if mended else piece.text, tuple(mended))


def _elided(piece: Piece, donors: Sequence[Piece]) -> list[Definition]:
    """The definitions that a module only hints at, and that a donor gives."""

    def given(name: str) -> bool:
        return any(not is_elided(node) for donor in donors for node in donor.binding.get(name, ()))

    return [
        n for n in piece.tree.body if isinstance(n, Definition) and n.name != ENTRY and is_elided(n) and given(n.name)
    ]


def _take(donor: Piece, missing: set[str], own: set[str]) -> list[ast.stmt]:
    """The statements of a donor that bind missing names, and those that these read.

    Args:
        missing: becomes what is still missing.
        own: names that the module itself defines; becomes what it defines with these statements.
    """
    waiting, taken = set(missing), set[ast.stmt]()
    while waiting:
        for node in donor.binding.get(waiting.pop(), ()):
            bound = defined(node)
            if node not in taken and ENTRY not in bound and not is_elided(node):
                taken.add(node)
                own |= bound
                waiting |= _reads(donor.source(node)) - own
    missing -= own
    return [node for node in donor.tree.body if node in taken]


def _reads(source: str) -> set[str]:
    """The names that a statement takes from its module."""
    tree = parse_python(source)
    return set() if tree is None else undefined_names(source, tree)


def _with_methods(piece: Piece, donor: Piece) -> tuple[Piece, list[str]]:
    """The module with the methods of the donor's ModelNew that its own one relies on and lacks."""
    if not piece.entries or not donor.entries or is_elided(donor.entries[-1]):
        return piece, []
    own, other = piece.entries[-1], donor.entries[-1]
    has = {name for node in own.body for name in defined(node)} | _attributes(own, ast.Store)
    wanted = _attributes(own, ast.Load) - has
    methods = [
        node
        for node in other.body
        if isinstance(node, ast.FunctionDef) and node.name not in has and wanted & _given_by(node)
    ]
    if not methods:
        return piece, []
    lines, indent = piece.text.split("\n"), piece.indent(own.body[0])
    at = span(own.body[0]).start - 1
    added = [indent + row if row.strip() else row for m in methods for row in [*donor.source(m).split("\n"), ""]]
    completed = Piece.read("\n".join([*lines[:at], *added, *lines[at:]]), piece.where)
    if completed is None:
        return piece, []
    return completed, [f"{ENTRY}.{', '.join(m.name for m in methods)} taken from {donor.where}"]


def _given_by(method: ast.FunctionDef) -> set[str]:
    """The attributes of `self` that a class has because of a method."""
    return {method.name} | (_attributes(method, ast.Store) if method.name == "__init__" else set())


def _attributes(node: ast.AST, context: type[ast.expr_context]) -> set[str]:
    """The attributes of `self` that are read, or written, anywhere in a node."""
    return {
        inner.attr
        for inner in ast.walk(node)
        if isinstance(inner, ast.Attribute)
        and isinstance(inner.ctx, context)
        and isinstance(inner.value, ast.Name)
        and inner.value.id == "self"
    }

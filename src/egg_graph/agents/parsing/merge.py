"""Merge an answer that gives single functions or classes into the module that it is about."""

import ast
from collections.abc import Sequence

from egg_graph.agents.parsing.module import Module, defined, is_test_code, span
from egg_graph.agents.parsing.pieces import ENTRY, REFERENCE, WHOLE, Piece, insert, is_elided, is_import
from egg_graph.agents.parsing.reply import Unreadable


def merge(pieces: Sequence[Piece], base: Piece) -> Module:
    """Put each definition of an answer in the place of its namesake in `base`; a new one goes behind the imports.

    A function of `self` may also take the place of the one method of its name. What is elided stays as it is.

    Raises:
        Unreadable: if nothing of the answer has a namesake there, or it is not plain what takes the place of what.
    """
    edits: list[tuple[range, list[str]]] = []
    fresh: list[tuple[Piece, ast.stmt]] = []
    merged: list[str] = []
    for piece, node in _statements(pieces):
        place = None if is_import(node) else _place(node, base)
        if place is None:
            fresh.append((piece, node))
        else:
            indent = base.indent(place)
            rows = piece.source(node).split("\n")
            edits.append((span(place), [indent + row if row.strip() else row for row in rows]))
            merged += sorted(defined(node))
    if not merged:
        raise Unreadable(f"the code defines no `class {ENTRY}`, and nothing that the module has by that name", WHOLE)
    return Module(_edited(base, edits, fresh), (f"{', '.join(merged)} merged into {base.where}",))


def changes(piece: Piece, base: Piece) -> bool:
    """Whether a piece defines anything that the module has by that name."""
    statements = [
        node for node in piece.tree.body if not is_import(node) and not is_elided(node) and not is_test_code(node)
    ]
    return any(name in base.binding or name in base.methods for node in statements for name in defined(node))


def _statements(pieces: Sequence[Piece]) -> list[tuple[Piece, ast.stmt]]:
    """The definitions, assignments and imports of an answer; those that are repeated word by word once."""
    given: dict[str, str] = {}
    statements: list[tuple[Piece, ast.stmt]] = []
    for piece in pieces:
        for node in piece.tree.body:
            names, text = defined(node), piece.source(node)
            if not names or is_test_code(node) or is_elided(node) or all(given.get(name) == text for name in names):
                continue
            if REFERENCE in names:
                raise Unreadable(f"the code defines no `class {ENTRY}`, but a {REFERENCE}", WHOLE)
            if not is_import(node) and (twice := sorted(names & set(given))):
                raise Unreadable(f"it gives two versions of {twice[0]}, and no whole module", WHOLE)
            given |= dict.fromkeys(names, text)
            statements.append((piece, node))
    return statements


def _place(node: ast.stmt, base: Piece) -> ast.stmt | None:
    """The statement of the module whose place a piece takes; None for a new one."""
    names = defined(node)
    places = list({id(place): place for name in names for place in base.binding.get(name, ())}.values())
    method = isinstance(node, ast.FunctionDef) and bool(node.args.args) and node.args.args[0].arg == "self"
    if method and not places:
        places = base.methods.get(min(names), [])
    if len(places) > 1 or (method and not places):
        count = f"{len(places)} places have" if places else "nothing has"
        raise Unreadable(f"it is not plain where {', '.join(sorted(names))} belongs: {count} that name", WHOLE)
    return places[0] if places else None


def _edited(base: Piece, edits: list[tuple[range, list[str]]], fresh: list[tuple[Piece, ast.stmt]]) -> str:
    lines = base.text.split("\n")
    for place, rows in sorted(edits, key=lambda edit: edit[0].start, reverse=True):
        lines[place.start - 1 : place.stop - 1] = rows
    replaced = Piece.read("\n".join(lines), base.where)
    if replaced is None or not base.binding.keys() <= replaced.binding.keys():
        raise Unreadable("its parts do not fit into the module that it is about", WHOLE)
    new = [(piece.source(node), is_import(node)) for piece, node in fresh if not defined(node) <= base.binding.keys()]
    return insert(
        replaced.text, [text for text, imports in new if imports], [text for text, imports in new if not imports]
    )

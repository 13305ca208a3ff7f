"""Rewrite a candidate's text: write a configuration into CONFIG, or replace CONFIG by plain constants.

Both edit at the positions that the syntax tree gives, so that layout and comments survive. `finish` compares the
result's syntax tree with the intended one before it returns the text.
"""

import ast
import math
import re
from collections.abc import Mapping
from typing import NamedTuple

from egg_graph.schema import BadInput, Knob
from egg_graph.schema.syntax import syntax_tree
from egg_graph.tuning.literals import DictLiteral, find, find_well_formed, parse, read_knobs


class Edit(NamedTuple):
    """Replace `source[start:end]`."""

    start: int
    end: int
    text: str


def bake(source: str, config: Mapping[str, Knob]) -> str:
    """Write a configuration into the CONFIG literal. Every other character of the source stays.

    Args:
        source: a module with a CONFIG literal.
        config: new values by knob; a knob that is not named keeps its value.

    Raises:
        BadInput: if the source has no well-formed CONFIG, or `config` names a knob that CONFIG lacks.
    """
    literal = find(parse(source), "CONFIG")
    entries = {} if literal is None else literal.entries
    for knob, value in config.items():
        if knob not in entries:
            raise BadInput(f"cannot bake {knob!r}: CONFIG has {', '.join(entries) or 'no knobs'}")
        if isinstance(value, float) and not math.isfinite(value):
            raise BadInput(f"cannot bake {knob!r}: {value!r} has no literal")
    offsets = _Offsets(source)
    return _apply(source, [offsets.replace(entries[knob], repr(value)) for knob, value in config.items()])


def finish(source: str) -> str:
    """Replace `CONFIG["X"]` by plain constants and remove CONFIG and SPACE, so that a person can read the source.

    A use of CONFIG that is no plain subscript (`**CONFIG`, `CONFIG.get(...)`, a subscript inside an f-string) stays.
    Then the CONFIG literal stays too, because the module needs it, and so does a literal that is malformed.

    Raises:
        BadInput: if the source does not parse.
    """
    tree = parse(source)
    config = read_knobs(source).config
    offsets = _Offsets(source)
    uses = [] if (literal := find_well_formed(tree, "CONFIG", [])) is None else _subscripts(tree, config)
    text = {id(use): _constant(config[_key(use)], source, offsets.end(use), parent) for use, parent in uses}
    edits = [offsets.replace(use, text[id(use)]) for use, _ in uses]
    dropped: list[ast.stmt] = []
    for name, found in (("CONFIG", literal), ("SPACE", find_well_formed(tree, "SPACE", []))):
        plain = len(uses) if name == "CONFIG" else 0
        if found is not None and len(_reads(tree, name)) == plain:
            dropped.append(found.statement)
            edits.append(offsets.remove(found))
    result = _apply(source, edits)
    _check(result, tree, {id(use): config[_key(use)] for use, _ in uses}, dropped)
    return result


def _reads(tree: ast.AST, name: str) -> list[ast.Name]:
    return [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)]


def _subscripts(tree: ast.AST, config: Mapping[str, Knob]) -> list[tuple[ast.Subscript, ast.AST]]:
    """Every `CONFIG["X"]` outside an f-string, with its parent node."""
    found = []
    waiting: list[ast.AST] = [tree]
    while waiting:
        parent = waiting.pop()
        for child in ast.iter_child_nodes(parent):
            if isinstance(child, ast.JoinedStr):
                continue  # a constant may not fit between its quotes, and Python 3.11 gives wrong positions there
            if _is_use(child, config):
                found.append((child, parent))
            else:
                waiting.append(child)
    return found  # type: ignore[return-value]


def _is_use(node: ast.AST, config: Mapping[str, Knob]) -> bool:
    match node:
        case ast.Subscript(value=ast.Name(id="CONFIG"), slice=ast.Constant(value=str(key)), ctx=ast.Load()):
            return key in config
    return False


def _key(use: ast.Subscript) -> str:
    assert isinstance(use.slice, ast.Constant)
    return str(use.slice.value)


def _constant(value: Knob, source: str, end: int, parent: ast.AST) -> str:
    """The constant as text, in brackets where it would otherwise bind to its neighbours."""
    text = repr(value)
    if isinstance(parent, ast.Attribute) or text.startswith("-"):
        return f"({text})"
    return text + " " if re.match(r"\w", source[end : end + 1]) else text


class _Offsets:
    """Character offsets of syntax-tree positions: those count lines from 1, and columns in UTF-8 bytes."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.starts = [0, *(match.end() for match in re.finditer(r"\r\n|\r|\n", source))]

    def at(self, line: int, column: int) -> int:
        start = self.starts[line - 1]
        following = self.source[start:] if line == len(self.starts) else self.source[start : self.starts[line]]
        return start + len(following.encode()[:column].decode())

    def start(self, node: ast.expr | ast.stmt) -> int:
        return self.at(node.lineno, node.col_offset)

    def end(self, node: ast.expr | ast.stmt) -> int:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.at(node.end_lineno, node.end_col_offset)

    def replace(self, node: ast.expr, text: str) -> Edit:
        return Edit(self.start(node), self.end(node), text)

    def remove(self, literal: DictLiteral) -> Edit:
        """Remove a statement with its whole line. Where another statement shares the line, it becomes `pass`."""
        start, end = self.start(literal.statement), self.end(literal.statement)
        rest = re.compile(r"[ \t]*(#[^\r\n]*)?(\r\n|\r|\n|\Z)").match(self.source, end)
        if start not in self.starts or rest is None:
            return Edit(start, end, "pass")
        return Edit(start, rest.end(), _GONE)


_GONE = "\0"
"""Marks where a line was removed; no source that parses can contain it."""
_BLANK = r"(?:[ \t]*(?:\r\n|\r|\n))"


def _apply(source: str, edits: list[Edit]) -> str:
    for edit in sorted(edits, reverse=True):
        source = source[: edit.start] + edit.text + source[edit.end :]
    around_gone = rf"(?:\A|(?<=\n)|(?<=\r)(?!\n))(?:{_BLANK}|{_GONE})*{_GONE}(?:{_BLANK}|{_GONE})*"
    return re.sub(around_gone, _close_gap, source)


def _close_gap(match: re.Match[str]) -> str:
    """Keep the longer run of blank lines before and after the removed ones; none at the top of the file."""
    return "" if match.start() == 0 else max(match.group().split(_GONE), key=lambda run: len(re.findall(_BLANK, run)))


def _expression(text: str) -> ast.expr:
    statement = syntax_tree(text).body[0]
    assert isinstance(statement, ast.Expr)
    return statement.value


def _check(result: str, tree: ast.Module, values: Mapping[int, Knob], dropped: list[ast.stmt]) -> None:
    """Compare the rewritten text's syntax tree with the intended one."""

    class Meant(ast.NodeTransformer):
        def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
            if id(node) in values:
                return _expression(repr(values[id(node)]))
            return self.generic_visit(node)

    meant = Meant().visit(tree)
    meant.body = [statement for statement in meant.body if statement not in dropped]
    written = syntax_tree(result)
    written.body = [s for s in written.body if not isinstance(s, ast.Pass)]
    meant.body = [s for s in meant.body if not isinstance(s, ast.Pass)]
    if ast.dump(written) != ast.dump(meant):
        raise AssertionError("the rewritten module is not the one that was meant; please report its source")

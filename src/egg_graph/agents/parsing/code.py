"""Find the module in a coder's answer: in one fence, in several, in none, or as a change of the module it is about."""

import re
import textwrap

from egg_graph.agents.parsing.complete import complete
from egg_graph.agents.parsing.diff import apply_diff, is_diff
from egg_graph.agents.parsing.fences import PYTHON, Block, find_blocks
from egg_graph.agents.parsing.merge import changes, merge
from egg_graph.agents.parsing.module import Module, error_line, mend_module
from egg_graph.agents.parsing.pieces import ENTRY, WHOLE, Piece, is_elided
from egg_graph.agents.parsing.reply import Reply, Unreadable, answer_text

MAX_MODULE = 100_000
"""Most characters of a module; a longer one would fill every later prompt."""
_ENTRY = re.compile(rf"^[ \t]*+class[ \t]++{ENTRY}[ \t]*+[(:]", re.MULTILINE)
_BEGIN = re.compile(r"^(import |from |@|def |class |\"\"\"|#!|# ?-\*-)")
_DIFFS = frozenset({"diff", "patch"})
_MAX_TRAILING = 8
"""Lines of prose after unfenced code that are tried away, one by one."""
_MAX_DONORS = 32
"""Blocks of an answer, the last ones, from which its module is completed."""
_BEFORE = "the module before"
_SHORTER = "Answer again, shorter: the module alone in one fenced Python block, no explanation, no long comments."


def read_module(reply: Reply, base: str = "") -> Module:
    """Read the module of an answer, and mend it where that is plain.

    The answer may leave out what its other blocks or `base` define, or be a change of `base`: single functions or
    classes, or a unified diff. A module with a syntax error is returned as it is: the evaluator names the line.

    Args:
        base: source of the module that the answer is about; empty where there is none.

    Raises:
        Unreadable: if the answer is empty, too long or cut off inside the code, or if no whole module comes of it.
    """
    text = answer_text(reply, WHOLE)
    blocks = find_blocks(text)
    diffs = [b for b in blocks if b.language in _DIFFS or (b.language in PYTHON and is_diff(b.text))]
    codes = [b for b in blocks if b.language in PYTHON and not is_diff(b.text)]
    if any(_ENTRY.search(block.text) for block in codes):
        found = _from_blocks(codes, reply, base)
    elif not diffs and _ENTRY.search(text):
        found = _from_prose(text, reply)
    else:
        found = _from_change(codes, diffs, text, reply, base)
    if len(found.source) > MAX_MODULE:
        raise Unreadable(f"the module has {len(found.source)} characters; at most {MAX_MODULE} are taken", _SHORTER)
    mended = mend_module(textwrap.dedent(found.source).strip("\n") + "\n")
    return Module(mended.source, (*found.mended, *mended.mended))


def _from_blocks(codes: list[Block], reply: Reply, base: str) -> Module:
    """The last block with a ModelNew that is no stub, completed from the other blocks and from the module before.

    A block that quotes the module before counts only where there is nothing else.
    """
    pieces = [(block, piece) for block in codes if (piece := _piece(block))]
    before = Piece.read(base, _BEFORE)
    said = [(block, piece) for block, piece in pieces if piece.text.strip() != base.strip()]
    solid = [(block, piece) for block, piece in said if piece.entries and not is_elided(piece.entries[-1])]
    if before is not None and not solid and any(changes(piece, before) for _, piece in said):
        return merge([piece for _, piece in said], before)
    whole = [(block, piece) for block, piece in pieces if piece.entries]
    if not whole:
        last = [block for block in codes if _ENTRY.search(block.text)][-1]
        if reply.truncated or not last.closed:
            raise _cut_off()
        return Module(textwrap.dedent(last.text))
    block, chosen = (solid or whole)[-1]
    if not block.closed and reply.truncated:
        raise _cut_off()
    others = [piece for _, piece in reversed(pieces) if piece is not chosen]
    module = complete(chosen, [*others[:_MAX_DONORS], *([before] if before else [])])
    stub = () if chosen is whole[-1][1] else (f"a later {ENTRY} that is a stub or a quotation left out",)
    return Module(module.source, (*stub, *module.mended))


def _piece(block: Block) -> Piece | None:
    return Piece.read(textwrap.dedent(block.text), "another block of the answer")


def _from_prose(text: str, reply: Reply) -> Module:
    """Code without a fence: from the first line that can begin a module to the last with which it parses."""
    lines = text.split("\n")
    begin = next((number for number, row in enumerate(lines) if _BEGIN.match(row)), 0)
    code = lines[begin:]
    for _ in range(_MAX_TRAILING):
        if reply.truncated or not _ENTRY.search("\n".join(code)):
            break
        error = error_line("\n".join(code))
        if error is None:
            return Module("\n".join(code))
        code = code[: _statement_at(code, error)]
    if reply.truncated:
        raise _cut_off()
    return Module("\n".join(lines[begin:]))


def _statement_at(code: list[str], line: int) -> int:
    """Index of the last line, at or before a line counted from 1, that can begin a top-level statement."""
    at = min(line, len(code)) - 1
    while at > 0 and (not code[at] or code[at][0] in " \t)]}"):
        at -= 1
    return at


def _from_change(codes: list[Block], diffs: list[Block], text: str, reply: Reply, base: str) -> Module:
    """An answer without ModelNew, as a change of the module before."""
    if diffs or is_diff(text):
        if not base:
            raise Unreadable("it is a diff, and there is no module to apply it to", WHOLE)
        return Module(apply_diff([block.text for block in diffs] or [text], base), (f"a diff applied to {_BEFORE}",))
    if not codes:
        raise Unreadable("there is no code in the answer", WHOLE)
    if reply.truncated or not codes[-1].closed:
        raise _cut_off()
    pieces, before = [piece for block in codes if (piece := _piece(block))], Piece.read(base, _BEFORE)
    if not pieces or before is None or not before.entries:
        raise Unreadable(f"the code defines no `class {ENTRY}`", WHOLE)
    return merge(pieces, before)


def _cut_off() -> Unreadable:
    return Unreadable("it was cut off inside the code by the output limit", _SHORTER)

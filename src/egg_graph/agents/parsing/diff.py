"""Apply a unified diff to the module that an answer is about."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from egg_graph.agents.parsing.pieces import WHOLE
from egg_graph.agents.parsing.reply import Unreadable

_HUNK = re.compile(r"^@@(?: -(\d{1,9})\S*)?")
_MAX_HUNKS = 100


@dataclass
class _Hunk:
    """One hunk: the lines that it expects, and those that take their place."""

    line: int
    """Where the header says that it begins, from 1; 0 where it says nothing."""
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)


def is_diff(text: str) -> bool:
    """True for a text with a hunk that adds or removes lines."""
    return re.search(r"^@@", text, re.MULTILINE) is not None and re.search(r"^[+-]", text, re.MULTILINE) is not None


def apply_diff(diffs: Iterable[str], base: str) -> str:
    """Apply diffs by their lines, at the place that a header names, or else at the only one that fits.

    Raises:
        Unreadable: if there are too many hunks, or one fits nowhere or at several places.
    """
    hunks = [hunk for diff in diffs for hunk in _hunks(diff) if hunk.before != hunk.after]
    if len(hunks) > _MAX_HUNKS:
        raise Unreadable(f"the diff has {len(hunks)} hunks; at most {_MAX_HUNKS} are applied", WHOLE)
    lines = base.split("\n")
    for number, hunk in enumerate(hunks, start=1):
        at = _place(hunk, lines, number)
        lines[at : at + len(hunk.before)] = hunk.after
    return "\n".join(lines)


def _hunks(diff: str) -> list[_Hunk]:
    hunks: list[_Hunk] = []
    for row in diff.split("\n"):
        header = _HUNK.match(row)
        if header:
            hunks.append(_Hunk(int(header[1] or 0)))
        elif hunks and not row.startswith(("---", "+++", "\\", "diff ")):
            if not row.startswith("+"):
                hunks[-1].before.append(row[1:].rstrip())
            if not row.startswith("-"):
                hunks[-1].after.append(row[1:].rstrip())
    for hunk in hunks:
        while hunk.before and hunk.after and not hunk.before[-1] and not hunk.after[-1]:  # blank lines of the fence
            del hunk.before[-1], hunk.after[-1]
    return hunks


def _place(hunk: _Hunk, lines: list[str], number: int) -> int:
    """Index of the line at which a hunk fits."""
    if not hunk.before:
        raise Unreadable(f"hunk {number} of the diff names no line beside those it adds", WHOLE)
    size, at = len(hunk.before), hunk.line - 1
    if at >= 0 and [line.rstrip() for line in lines[at : at + size]] == hunk.before:
        return at
    text, wanted = ("".join(f"\n{line.rstrip()}" for line in some) + "\n" for some in (lines, hunk.before))
    place = text.find(wanted)
    if place < 0 or text.find(wanted, place + 1) >= 0:
        fit = "does not fit" if place < 0 else "fits at several places of"
        raise Unreadable(f"hunk {number} of the diff {fit} the module that it is about", WHOLE)
    return text.count("\n", 0, place)

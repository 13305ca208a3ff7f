"""Markdown fences: the blocks of an answer, also where a docstring inside a block shows a fence of its own."""

import re
import textwrap
from dataclasses import dataclass

from egg_graph.agents.parsing.module import parse_python

PYTHON = frozenset({"", "python", "python3", "py", "triton", "code"})
"""Languages of blocks that may hold Python."""

_OPEN = re.compile(r"^[ \t>]*+(`{3,}+|~{3,}+)[ \t]*+([\w+#.-]*+)[^`\n]*+$")
_QUOTES = re.compile(r"\\.|#|\"\"\"|'''|\"|'")


@dataclass(frozen=True)
class Block:
    """One block in a Markdown fence."""

    language: str
    text: str
    closed: bool
    """False where the answer ended inside the block."""


def find_blocks(text: str) -> list[Block]:
    """The fenced blocks, in order. A fence ends at a line of at least as many of the same character.

    In a block of Python such a line inside a triple-quoted string ends nothing, provided that the longer block parses.
    Takes time in proportion to the text: after one block for which that does not hold, such strings count no more.
    """
    rows = text.split("\n")
    found: list[Block] = []
    at, strings = 0, True
    while at < len(rows):
        opening = _OPEN.match(rows[at])
        at += 1
        if opening is None:
            continue
        mark, language = opening[1], opening[2].lower()
        first, end = _ends(rows, at, mark, strings and language in PYTHON)
        if first != end and (end == len(rows) or parse_python(_text(rows[at:end])) is None):
            end, strings = first, False
        found.append(Block(language, "\n".join(rows[at:end]), closed=end < len(rows)))
        at = end + 1
    return found


def _ends(rows: list[str], start: int, mark: str, strings: bool) -> tuple[int, int]:
    """Where a block ends: at the first closing fence, and at the first one outside triple-quoted strings.

    Both are the number of rows where there is none; they are the same where `strings` is false.
    """
    first, quote = len(rows), ""
    for number in range(start, len(rows)):
        row = rows[number].strip(" \t>")
        if row.startswith(mark) and not row.strip(mark[0]):
            first = min(first, number)
            if not quote:
                return first, number
        elif strings:
            quote = _open_quote(rows[number], quote)
    return first, len(rows)


def _open_quote(row: str, quote: str) -> str:
    """The triple quote that is open after a row of Python; empty where none is.

    Args:
        quote: the one that is open before the row.
    """
    single = ""
    for token in _QUOTES.findall(row):
        if quote:
            quote = "" if token == quote else quote
        elif single:
            single = "" if token[0] == single else single
        elif token == "#":
            break
        elif len(token) == 3:
            quote = token
        elif token in "\"'":
            single = token
    return quote


def _text(rows: list[str]) -> str:
    return textwrap.dedent("\n".join(rows))

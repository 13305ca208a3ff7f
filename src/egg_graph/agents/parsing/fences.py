"""Markdown fences in a model's answer."""

import re
from dataclasses import dataclass

_OPEN = re.compile(r"^[ \t>]*(`{3,}|~{3,})[ \t]*([\w+#.-]*)[^`\n]*$")


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    language: str
    text: str
    closed: bool
    """False where the answer ended inside it."""


def blocks(text: str) -> list[Block]:
    """The fenced blocks in order. A fence closes with at least as many of the same character, alone on its line."""
    found: list[Block] = []
    mark = language = ""
    body: list[str] = []
    for row in text.split("\n"):
        if not mark:
            opening = _OPEN.match(row)
            if opening:
                mark, language, body = opening[1], opening[2].lower(), []
        elif row.strip(" \t>").startswith(mark) and not row.strip(" \t>").strip(mark[0]):
            found.append(Block(language, "\n".join(body), closed=True))
            mark = ""
        else:
            body.append(row)
    if mark:
        found.append(Block(language, "\n".join(body), closed=False))
    return found

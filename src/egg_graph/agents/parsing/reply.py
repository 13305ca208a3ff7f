"""A model's answer as text: without its thinking, its Markdown fences, texts of bounded length."""

import re
from dataclasses import dataclass

_OPEN = re.compile(r"^[ \t>]*(`{3,}|~{3,})[ \t]*([\w+#.-]*)[^`\n]*$")


@dataclass(frozen=True)
class Reply:
    """What a model sent."""

    text: str
    truncated: bool = False
    """True where the provider reports that the answer hit the output limit."""


class Unreadable(Exception):
    """Raised for an answer that cannot be used, with the reason and the request that follows."""

    def __init__(self, reason: str, request: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.request = request


def strip_thinking(text: str) -> str:
    """Remove `<think> ... </think>`, whose opening tag is often missing, and normalize line ends.

    Thinking that never ends leaves nothing: the answer was cut off before it began.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    _, closed, after = text.rpartition("</think>")
    if closed:
        return after
    before, opened, _ = text.partition("<think>")
    return before if opened else text


@dataclass(frozen=True)
class Block:
    """One block in a Markdown fence."""

    language: str
    text: str
    closed: bool
    """False where the answer ended inside the block."""


def find_blocks(text: str) -> list[Block]:
    """The fenced blocks, in order. A fence ends at a line of at least as many of the same character."""
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


def trim_words(text: str, limit: int) -> str:
    """Cut a text to `limit` words: at the end of a sentence if that keeps half of them, else with "…"."""
    words = text.split()
    if len(words) <= limit:
        return " ".join(words)
    kept = words[:limit]
    for end in range(limit, limit // 2, -1):
        if kept[end - 1].endswith((".", ";", "!")):
            return " ".join(kept[:end]).rstrip(";")
    return " ".join(kept) + "…"

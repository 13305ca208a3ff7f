"""A model's answer as text: what of it is read, without its thinking."""

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

MAX_ANSWER = 200_000
"""Most characters of an answer that are read."""


@dataclass(frozen=True)
class Reply:
    """What a model sent."""

    text: str
    truncated: bool = False
    """True where the provider reports that the answer hit the output limit."""

    def __post_init__(self) -> None:
        """Put a mark in place of each half of a character, which no file and no request could hold."""
        object.__setattr__(self, "text", clean(self.text))


class Unreadable(Exception):
    """Raised for an answer that cannot be used, with the reason and the request that follows."""

    def __init__(self, reason: str, request: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.request = request


def clean(text: str) -> str:
    """The text with a mark in place of each half of a character."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def strip_thinking(text: str) -> str:
    """Remove `<think> ... </think>`, whose opening tag is often missing, and normalize line ends.

    Thinking that never ends leaves nothing: the answer was cut off before it began. Tags within the strings of an
    answer in JSON are its own.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "think>" not in text:
        return text
    own = list(_spans_of_json(text))
    closed = _places("</think>", text, own)
    if closed:
        whole = text[closed[0] + len("</think>") :]
        return whole if _is_json(whole) else text[closed[-1] + len("</think>") :]
    opened = _places("<think>", text, own)
    return text[: opened[0]] if opened else text


def _places(tag: str, text: str, own: list[tuple[int, int]]) -> list[int]:
    """Where a tag stands outside of the answer's own strings."""
    begins = [begin for begin, _ in own]
    places = []
    for match in re.finditer(tag, text):
        before = bisect_right(begins, match.start()) - 1
        if before < 0 or match.start() >= own[before][1]:
            places.append(match.start())
    return places


def _spans_of_json(text: str) -> Iterator[tuple[int, int]]:
    """Yield the parts of a text that are JSON: all of it, or what stands in a fence."""
    if _is_json(text):
        yield 0, len(text)
        return
    begin, place = None, 0
    for line in text.splitlines(keepends=True):
        if line.startswith("```"):
            if begin is not None and _is_json(text[begin:place]):
                yield begin, place
            begin = place + len(line) if begin is None else None
        place += len(line)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def answer_text(reply: Reply, request: str) -> str:
    """The text of an answer that is read.

    Raises:
        Unreadable: if it is empty or too long.
    """
    text = strip_thinking(reply.text).strip()
    if len(text) > MAX_ANSWER:
        raise Unreadable(f"it has {len(text)} characters; at most {MAX_ANSWER} are read", f"{request} Be brief.")
    if text:
        return text
    began = reply.truncated or reply.text.strip()
    raise Unreadable("it was cut off before the answer began" if began else "the answer is empty", request)

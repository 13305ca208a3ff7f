"""A model's answer as text: what of it is read, without its thinking."""

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

    Thinking that never ends leaves nothing: the answer was cut off before it began.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    _, closed, after = text.rpartition("</think>")
    if closed:
        return after
    before, opened, _ = text.partition("<think>")
    return before if opened else text


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

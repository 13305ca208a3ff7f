"""A model's answer as text, and the verdict that it cannot be used."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Reply:
    """What a model sent."""

    text: str
    truncated: bool = False
    """The provider says that the answer hit the output limit."""


class Unreadable(Exception):
    """An answer that cannot be used, with the reason and what to ask for instead."""

    def __init__(self, reason: str, request: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.request = request


def spoken(text: str) -> str:
    """The answer with plain line ends and without the model's thinking aloud.

    That is `<think> ... </think>`, its opening tag often missing. Thinking that never ends leaves nothing: the answer
    was cut off before it began.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    _, closed, after = text.rpartition("</think>")
    if closed:
        return after
    before, opened, _ = text.partition("<think>")
    return before if opened else text

"""A prompt in parts, so that it can be held to a number of tokens: the least important parts go first."""

import secrets
from collections.abc import Callable
from typing import NamedTuple

from egg_graph.agents.tokens import estimate_tokens


class Part(NamedTuple):
    """One part of a prompt."""

    name: str
    """What it is, as the reader is told when it is left out."""
    text: str
    cut: int | None
    """Its turn to be left out: 1 goes first. None: it always stays."""
    tokens: int


class Prompt(NamedTuple):
    """A prompt as it is sent, and what became of its parts."""

    text: str
    tokens: int
    """Estimated tokens of `text`."""
    parts: tuple[Part, ...]
    """The parts that are in it, in order."""
    left_out: tuple[Part, ...] = ()
    """The parts that are not."""


class PartList:
    """Collects the parts of one prompt while its template is rendered.

    A template marks a part with `{% call part("the log", cut=2) %}...{% endcall %}`; what stands between the parts
    always stays. Parts of one turn go in the order in which they stand. Parts do not nest.
    """

    def __init__(self) -> None:
        self._parts: list[Part] = []
        self._mark = f"\0{secrets.token_hex(8)}\0"

    def part(self, name: str, cut: int | None = None, *, caller: Callable[[], str]) -> str:
        """Take one part, and return the mark that stands for it."""
        text = caller()
        if not text.strip():
            return ""
        self._parts.append(Part(name, text, cut, estimate_tokens(text)))
        return f"{self._mark}{len(self._parts) - 1}{self._mark}"

    def assemble(self, rendered: str, limit: int | None) -> Prompt:
        """Put the parts in their places, without those that are too much.

        Args:
            rendered: what the template gave, with a mark for each part.
            limit: most tokens, as estimated; None for no limit. Parts that always stay may be more.
        """
        pieces = rendered.split(self._mark)
        frame = sum(estimate_tokens(piece) for piece in pieces[::2])
        kept, total = set(range(len(self._parts))), frame + sum(part.tokens for part in self._parts)
        turns = sorted((part.cut, n) for n, part in enumerate(self._parts) if part.cut is not None)
        for _, number in turns:
            if limit is None or total <= limit:
                break
            kept.remove(number)
            total -= self._parts[number].tokens
        texts = [piece if n % 2 == 0 else self._text(int(piece), kept) for n, piece in enumerate(pieces)]
        left_out = tuple(part for n, part in enumerate(self._parts) if n not in kept)
        text = "".join(texts).strip() + "\n"
        if left_out:
            names = ", ".join(f"{part.name} ({part.tokens} tokens)" for part in left_out)
            told = f"\nLeft out of this brief for its size: {names}.\n"
            text, total = text + told, total + estimate_tokens(told)
        parts = tuple(part for n, part in enumerate(self._parts) if n in kept)
        return Prompt(text, total, parts, left_out)

    def _text(self, number: int, kept: set[int]) -> str:
        return self._parts[number].text if number in kept else ""

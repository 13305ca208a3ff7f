"""Random integers that surely include the ends of their range.

`torch.randint(0, classes, (16,))` hardly ever draws class 0, or the last one: a padding index, an embedding's last
row and a count of none would be met once in a thousand evaluations. What is drawn here is drawn from the same range,
and holds both ends. The greatest value is remembered, for where there are forms alone.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

LEAST = 8
"""Elements: fewer are numbers of their own, and stay as they are drawn."""


class Edges(TorchFunctionMode):
    """While this is active, what `torch.randint` draws has its least and its greatest value somewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn: dict[int, tuple[torch.Tensor, int]] = {}
        """By `id`, tensors as they were drawn, with the greatest value that each may hold."""

    def greatest(self, x: torch.Tensor) -> int | None:
        """The greatest value of a tensor that was drawn, None of any other."""
        return self.drawn[id(x)][1] if id(x) in self.drawn else None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        answer = func(*args, **(kwargs or {}))
        if func is torch.randint and answer.numel() >= LEAST:
            low, high = _range(args, kwargs or {})
            first = torch.randint(answer.numel(), (1,), device=answer.device)
            second = (first + torch.randint(1, answer.numel(), (1,), device=answer.device)) % answer.numel()
            answer.view(-1).index_fill_(0, first, low).index_fill_(0, second, high - 1)
            self.drawn[id(answer)] = (answer, high - 1)
        return answer


def _range(args: Any, kwargs: Any) -> tuple[int, int]:
    """`low` and `high` of `torch.randint(low=0, high, size)`."""
    given = [int(x) for x in args[:2] if isinstance(x, Integral)]
    high = int(kwargs["high"]) if "high" in kwargs else given.pop()
    return int(kwargs.get("low", given[0] if given else 0)), high

"""Make random integers include both ends of their range.

`torch.randint(0, classes, (16,))` hardly ever draws class 0 or the last class, so an evaluation would almost never meet
a padding index, the last row of an embedding, or an empty count. The mode below puts both ends into every draw and
remembers both ends of each range, and the integers of tensors that are written out (`torch.tensor([[32, 32],
[16, 16]])`), for callers that see fake tensors only.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

LEAST_ELEMENTS = 8
"""Draws with fewer elements are parameters of the problem and stay as drawn. Their least value is known, too."""
MOST_NUMBERS = 1024
"""Most numbers of a tensor that are remembered."""


class RandintEnds(TorchFunctionMode):
    """While active, every draw of `torch.randint` contains the least and the greatest value of its range."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn: dict[int, tuple[torch.Tensor, int, int]] = {}
        """Drawn tensors, the least and the greatest value that each may hold, by `id` of the tensor."""

        self.written: dict[int, tuple[torch.Tensor, int, tuple[int, ...]]] = {}
        """Integer tensors that are written out, their version and their numbers, by `id` of the tensor."""

    def numbers(self, x: torch.Tensor) -> tuple[int, ...] | None:
        """The integers of a tensor that is written out, as they lie in memory; None of any other tensor."""
        _, version, numbers = self.written.get(id(x), (x, -1, ()))
        return numbers if x._version == version else None

    def least(self, x: torch.Tensor) -> int | None:
        """The least value that a drawn tensor may hold; None for any other tensor."""
        return self.drawn[id(x)][1] if id(x) in self.drawn else None

    def greatest(self, x: torch.Tensor) -> int | None:
        """The greatest value that a drawn tensor may hold; None for any other tensor, and for parameters."""
        return self.drawn[id(x)][2] if id(x) in self.drawn and x.numel() >= LEAST_ELEMENTS else None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        answer = func(*args, **(kwargs or {}))
        if func is torch.randint:
            low, high = _range(args, kwargs or {})
            self.drawn[id(answer)] = (answer, low, high - 1)
        if func is torch.randint and answer.numel() >= LEAST_ELEMENTS:
            first = torch.randint(answer.numel(), (1,), device=answer.device)
            second = (first + torch.randint(1, answer.numel(), (1,), device=answer.device)) % answer.numel()
            answer.view(-1).index_fill_(0, first, low).index_fill_(0, second, high - 1)
        if func is torch.tensor and args and isinstance(args[0], list | tuple):
            numbers = tree_leaves(args[0])
            if len(numbers) <= MOST_NUMBERS and all(type(number) is int for number in numbers):
                self.written[id(answer)] = (answer, answer._version, tuple(numbers))
        return answer


def _range(args: Any, kwargs: Any) -> tuple[int, int]:
    """`low` and `high` of a call `torch.randint(low=0, high, size)`."""
    given = [int(x) for x in args[:2] if isinstance(x, Integral)]
    high = int(kwargs["high"]) if "high" in kwargs else given.pop()
    return int(kwargs.get("low", given[0] if given else 0)), high

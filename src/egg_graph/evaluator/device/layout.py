"""How one set of inputs lies in one piece of memory that judge and candidate share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from egg_graph.evaluator.device.shared_memory import shaped
from egg_graph.evaluator.wire import exchange

ALIGNMENT = 256
"""Of every tensor within a packed set [bytes], as PyTorch's allocator would give."""


@dataclass(frozen=True)
class Layout:
    """How one set of inputs lies in one piece of memory."""

    forms: list[Any]
    """The inputs by `exchange.encode`; a tensor's form holds its `offset` [bytes]."""
    nbytes: int
    """A multiple of 256, at least that."""

    @classmethod
    def of(cls, inputs: Sequence[Any]) -> Layout:
        end = 0

        def place(tensor: torch.Tensor) -> dict[str, Any]:
            nonlocal end
            dense = tensor if _dense(tensor) else tensor.contiguous()
            form = {**exchange.form(dense), "offset": end}
            end += -(-dense.numel() * dense.element_size() // ALIGNMENT) * ALIGNMENT
            return form

        return cls([exchange.encode(value, place) for value in inputs], max(end, ALIGNMENT))

    def views(self, raw: torch.Tensor) -> list[Any]:
        """The inputs over flat uint8 memory of `nbytes`: fresh tensor objects every time."""

        def view(form: dict[str, Any]) -> torch.Tensor:
            nbytes = math.prod(form["shape"]) * exchange.DTYPES[form["dtype"]].itemsize
            return shaped(raw[form["offset"] : form["offset"] + nbytes], form)

        return [exchange.decode(entry, view) for entry in self.forms]

    def pack(self, inputs: Sequence[Any], raw: torch.Tensor) -> None:
        """Write one set of inputs of this form into flat memory."""
        for mine, given in zip(tensors(self.views(raw)), tensors(inputs), strict=True):
            mine.copy_(given)


def tensors(inputs: Sequence[Any]) -> list[torch.Tensor]:
    """The tensors among inputs, in order."""
    return [x for x in tree_leaves(list(inputs)) if isinstance(x, torch.Tensor)]


def _dense(tensor: torch.Tensor) -> bool:
    return bool(torch.ops.aten.is_non_overlapping_and_dense(tensor))

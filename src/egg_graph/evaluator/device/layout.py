"""The layout of one set of inputs in a single buffer that judge and candidate share."""

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
"""Alignment of every tensor in the buffer [bytes], as PyTorch's allocator gives."""


@dataclass(frozen=True)
class Layout:
    """Where each tensor of one set of inputs lies in a buffer."""

    forms: list[Any]
    """The inputs as `exchange.encode` writes them; a tensor's form holds its `offset` [bytes]."""
    nbytes: int
    """Size of the buffer; a positive multiple of 256."""

    @classmethod
    def of(cls, inputs: Sequence[Any]) -> Layout:
        """Lay out one set of inputs."""
        end = 0

        def place(tensor: torch.Tensor) -> dict[str, Any]:
            nonlocal end
            dense = tensor if _dense(tensor) else tensor.contiguous()
            form = {**exchange.form(dense), "offset": end}
            end += -(-dense.numel() * dense.element_size() // ALIGNMENT) * ALIGNMENT
            return form

        return cls([exchange.encode(value, place) for value in inputs], max(end, ALIGNMENT))

    def views(self, raw: torch.Tensor) -> list[Any]:
        """Return the inputs as fresh tensor objects over a flat uint8 buffer of `nbytes`."""

        def view(form: dict[str, Any]) -> torch.Tensor:
            nbytes = math.prod(form["shape"]) * exchange.DTYPES[form["dtype"]].itemsize
            return shaped(raw[form["offset"] : form["offset"] + nbytes], form)

        return [exchange.decode(entry, view) for entry in self.forms]

    def pack(self, inputs: Sequence[Any], raw: torch.Tensor) -> None:
        """Write one set of inputs of this layout into a flat uint8 buffer."""
        for mine, given in zip(tensors(self.views(raw)), tensors(inputs), strict=True):
            mine.copy_(given)


def tensors(inputs: Sequence[Any]) -> list[torch.Tensor]:
    """Return the tensors among inputs, in order."""
    return [x for x in tree_leaves(list(inputs)) if isinstance(x, torch.Tensor)]


def _dense(tensor: torch.Tensor) -> bool:
    return bool(torch.ops.aten.is_non_overlapping_and_dense(tensor))

"""One leaf of a forward's output, as the candidate's process describes it: form, place and whose memory it lies in.

The judge believes nothing of it that would favour the candidate: it reads values from its own buffers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from egg_graph.evaluator.wire.exchange import dtype_name

PLAIN = (torch.Tensor, torch.nn.Parameter)
"""Types that count as plain tensors; a subclass could compute when it is copied."""
Owner = tuple[str, torch.Tensor]
"""A tensor whose memory an output should not lie in, after its name."""


def describe_leaf(leaf: Any, owners: Iterable[Owner]) -> dict[str, Any]:
    """Describe a leaf of an output as JSON.

    Args:
        leaf: anything a forward may return.
        owners: tensors whose memory it should not lie in.

    Returns:
        `{"strange": type}` if it is no plain strided tensor. Else dtype, shape, stride, device, `overlapping` (two
        elements at one address) and `aliases`, the names of owners whose memory it lies in.
    """
    if type(leaf) not in PLAIN:
        return {"strange": type(leaf).__name__}
    if leaf.layout is not torch.strided or leaf.is_quantized:
        return {"strange": f"{leaf.layout} tensor".removeprefix("torch.")}
    if leaf.is_meta or not _backed(leaf):
        return {"strange": "tensor without memory"}
    return {
        "dtype": dtype_name(leaf),
        "shape": list(leaf.shape),
        "stride": list(leaf.stride()),
        "device": str(leaf.device),
        "overlapping": overlapping(leaf),
        "aliases": [name for name, owner in owners if shares_memory(leaf, owner)],
    }


def _backed(tensor: torch.Tensor) -> bool:
    """Whether a strided tensor lies within its storage; it does not if somebody shrank the storage."""
    if not tensor.numel():
        return True
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (tensor.storage_offset() + last + 1) * tensor.element_size() <= tensor.untyped_storage().nbytes()


def overlapping(tensor: torch.Tensor) -> bool:
    """Return whether two elements may share an address, by sizes and strides alone (as in an expanded tensor)."""
    sizes = sorted((stride, size) for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1)
    if tensor.numel() == 0:
        return False
    reach = 1
    for stride, size in sizes:
        if stride < reach:
            return True
        reach = stride * (size - 1) + reach
    return False


def shares_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return whether the address ranges of two strided tensors overlap."""
    if not a.numel() or not b.numel():
        return False
    first, second = _span(a), _span(b)
    return first[0] < second[1] and second[0] < first[1]


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the address of a tensor's first byte, and that after its last."""
    reach = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)) + 1
    return tensor.data_ptr(), tensor.data_ptr() + reach * tensor.element_size()

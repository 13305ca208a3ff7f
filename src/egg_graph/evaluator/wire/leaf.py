"""What a forward returned, as its own process describes it: form, place and whose memory it is.

The judge believes none of it that would speak for the candidate: values are read from the judge's own buffers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from egg_graph.evaluator.wire.exchange import dtype_name

PLAIN = (torch.Tensor, torch.nn.Parameter)
Owner = tuple[str, torch.Tensor]


def describe_leaf(leaf: Any, owners: Iterable[Owner]) -> dict[str, Any]:
    """A leaf of an answer as JSON.

    Args:
        leaf: anything a forward may return.
        owners: tensors whose memory it should not lie in, and what to call them.

    Returns:
        `{"strange": type}` for what is no plain strided tensor, else dtype, shape, stride, device, `overlapping` (two
        elements at one address), `gaps` (memory between the elements) and `aliases`, the names of those owners.
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
        "gaps": leaf.numel() > 0 and not torch.ops.aten.is_non_overlapping_and_dense(leaf),
        "aliases": [name for name, owner in owners if shares_memory(leaf, owner)],
    }


def _backed(tensor: torch.Tensor) -> bool:
    """Whether a strided tensor lies within its storage, as all do but those whose storage somebody shrank."""
    if not tensor.numel():
        return True
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (tensor.storage_offset() + last + 1) * tensor.element_size() <= tensor.untyped_storage().nbytes()


def overlapping(tensor: torch.Tensor) -> bool:
    """Whether two elements share an address, as far as sizes and strides tell at a glance (an expanded tensor)."""
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
    """Whether two strided tensors lie in one piece of memory."""
    if not a.numel() or not b.numel():
        return False
    first, second = _span(a), _span(b)
    return first[0] < second[1] and second[0] < first[1]


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """Addresses from its first byte to past its last."""
    reach = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)) + 1
    return tensor.data_ptr(), tensor.data_ptr() + reach * tensor.element_size()

"""Uninitialized memory: which operators return some, where it lies in results, and plausible values to fill it."""

from typing import Any

import torch
from torch.utils._pytree import tree_leaves

GROWING = frozenset(
    {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted"}
    | {"resize_", "resize_as_", "resize", "resize_as", "set_"}
)
"""ATen operators whose result may own uninitialized memory."""
PERIOD = 1021
"""Count of different numbers in `Leftovers`; they repeat."""


class Leftovers:
    """Ordinary numbers, as other work leaves in memory. A candidate can recognise poison; it cannot recognise these.

    Args:
        seed: seed of the normally distributed numbers.
        device: device of the memory to fill.
    """

    def __init__(self, seed: int, device: torch.device | str = "cpu") -> None:
        self.numbers = torch.randn(PERIOD, generator=torch.Generator().manual_seed(seed)).to(device)

    def fill(self, flat: torch.Tensor) -> None:
        """Fill a one-dimensional tensor of any dtype."""
        numbers = self.numbers
        if flat.dtype == torch.bool:
            numbers = numbers > 0
        elif not (flat.is_floating_point() or flat.is_complex()):
            numbers = (numbers * 16).abs()
        whole = flat.numel() // PERIOD * PERIOD
        if whole:
            flat[:whole].view(-1, PERIOD).copy_(numbers)
        flat[whole:].copy_(numbers[: flat.numel() - whole])


def aten_name(function: Any) -> str:
    """Return the name of an ATen operator without its overload; empty for operators that have no overloads."""
    packet = getattr(function, "overloadpacket", None)
    return packet.__name__ if packet is not None else ""


def storage_sizes(operands: Any) -> dict[int, int]:
    """Return the bytes of every storage among an operator's operands, by the storage's address."""
    storages = [_storage(x) for x in tree_leaves(operands) if _owns_memory(x)]
    return {storage._cdata: storage.nbytes() for storage in storages}


def new_memory(result: Any, before: dict[int, int]) -> torch.Tensor | None:
    """Return the memory that a result owns beyond `before`, as a flat tensor of its dtype; None if there is none.

    Args:
        result: an operator's result.
        before: `storage_sizes` of its operands before the call.
    """
    if not isinstance(result, torch.Tensor) or not _owns_memory(result):
        return None
    storage = result.untyped_storage()
    return storage_tail(storage, before.get(storage._cdata, 0), result.dtype)


def storage_tail(storage: torch.UntypedStorage, before: int, dtype: torch.dtype) -> torch.Tensor | None:
    """Return a storage from byte `before` on, as a flat tensor; None if there is nothing."""
    first = -(-before // dtype.itemsize)
    elements = storage.nbytes() // dtype.itemsize - first
    if elements <= 0:
        return None
    return torch.empty(0, dtype=dtype, device=storage.device).set_(storage, first, (elements,), (1,))


def _owns_memory(value: Any) -> bool:
    return isinstance(value, torch.UntypedStorage) or (
        isinstance(value, torch.Tensor) and value.layout is torch.strided
    )


def _storage(value: Any) -> torch.UntypedStorage:
    return value if isinstance(value, torch.UntypedStorage) else value.untyped_storage()

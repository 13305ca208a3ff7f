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


def call_and_find(function: Any, args: Any, kwargs: Any) -> tuple[Any, torch.Tensor | None, bool]:
    """Call an operator, and find the uninitialized memory in its result.

    Returns:
        The result, what is uninitialized in it as a flat tensor of its dtype (None if nothing is), and whether its
        storage is a new one.
    """
    packet = getattr(function, "overloadpacket", None)  # of an ATen operator; some have no overloads
    if packet is None or packet.__name__ not in GROWING:
        return function(*args, **kwargs), None, False
    storages = [_storage(x) for x in tree_leaves((args, kwargs)) if _owns_memory(x)]
    before = {storage._cdata: storage.nbytes() for storage in storages}
    result = function(*args, **kwargs)
    if not isinstance(result, torch.Tensor) or not _owns_memory(result):
        return result, None, False
    storage = result.untyped_storage()
    fresh = storage_tail(storage, before.get(storage._cdata, 0), result.dtype)
    return result, fresh, storage._cdata not in before


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

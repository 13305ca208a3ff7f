"""Memory that nobody has written yet: what an operator allocates, or adds to a storage that it makes larger."""

from typing import Any

import torch
from torch.utils._pytree import tree_leaves

FACTORIES = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "empty_permuted"})
LEFT = 1021
"""Numbers that leftovers consist of, over and over."""
GROWING = FACTORIES | {"resize_", "resize_as_", "resize", "resize_as", "set_"}
"""Operators that may leave unwritten memory behind them."""


class Leftovers:
    """What fresh memory holds in a long day's work: numbers of others. Poison is known by its look; these are not."""

    def __init__(self, seed: int, device: torch.device | str = "cpu") -> None:
        self.numbers = torch.randn(LEFT, generator=torch.Generator().manual_seed(seed)).to(device)

    def fill(self, flat: torch.Tensor) -> None:
        """Write them into a one-dimensional tensor."""
        numbers = self.numbers
        if flat.dtype == torch.bool:
            numbers = numbers > 0
        elif not (flat.is_floating_point() or flat.is_complex()):
            numbers = (numbers * 16).abs()
        whole = flat.numel() // LEFT * LEFT
        if whole:
            flat[:whole].view(-1, LEFT).copy_(numbers)
        flat[whole:].copy_(numbers[: flat.numel() - whole])


def name_of(function: Any) -> str:
    """Of an ATen operator, whatever its overload; empty for operators that have none."""
    packet = getattr(function, "overloadpacket", None)
    return packet.__name__ if packet is not None else ""


def sizes(operands: Any) -> dict[int, int]:
    """Bytes of every storage among an operator's operands."""
    storages = [_storage(x) for x in tree_leaves(operands) if _owns_memory(x)]
    return {storage._cdata: storage.nbytes() for storage in storages}


def added(result: Any, before: dict[int, int]) -> torch.Tensor | None:
    """What an operator's result owns beyond `before`, as a flat tensor of its dtype; None if that is nothing."""
    if not isinstance(result, torch.Tensor) or not _owns_memory(result):
        return None
    storage = result.untyped_storage()
    return beyond(storage, before.get(storage._cdata, 0), result.dtype)


def beyond(storage: torch.UntypedStorage, before: int, dtype: torch.dtype) -> torch.Tensor | None:
    """A storage from byte `before` on, as a flat tensor; None if there is nothing."""
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

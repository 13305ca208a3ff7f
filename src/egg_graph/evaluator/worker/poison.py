"""Poison what a candidate allocates, and what its allocator keeps, so that it finds no old answer in its memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from egg_graph.evaluator.device.shared_memory import raw_bytes
from egg_graph.evaluator.wire import uninitialized
from egg_graph.evaluator.wire.poison import poison_

NAN_AT_ANY_WIDTH = 0x7FFE7FFE7FFE7FFE
"""64 bits that are NaN as float64, float32, float16 and bfloat16."""


class FreshPoison(TorchDispatchMode):
    """Fills fresh memory with a NaN that no arithmetic makes, so that elements which nobody wrote are seen.

    Args:
        leftovers: fills fresh memory instead.
    """

    def __init__(self, leftovers: uninitialized.Leftovers | None = None) -> None:
        super().__init__()
        self.fill = poison_ if leftovers is None else leftovers.fill

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result, fresh, _ = uninitialized.call_and_find(function, args, kwargs or {})
        if fresh is not None and fresh.is_cuda:
            self.fill(fresh)
        return result


def poison_free_memory(sizes: Sequence[int]) -> int:
    """Overwrite every block that PyTorch's allocator keeps for reuse; the device must be idle.

    `FreshPoison` does not see allocations below Python (an operator's own workspace). They get these blocks.

    Args:
        sizes: expected allocations [bytes]; the allocator is made to hold a free block for each.

    Returns:
        How much memory was overwritten [bytes].
    """
    free, _ = torch.cuda.mem_get_info()
    if 3 * sum(sizes) < free:
        held = [torch.empty(size, dtype=torch.uint8, device="cuda") for size in sizes]
        del held
    torch.cuda.synchronize()
    total = 0
    for address, size in free_blocks(torch.cuda.memory_snapshot()):
        raw_bytes(address, size // 8 * 8).view(torch.int64).fill_(NAN_AT_ANY_WIDTH)
        total += size
    return total


def free_blocks(snapshot: Sequence[dict[str, Any]]) -> Iterator[tuple[int, int]]:
    """Yield address and size [bytes] of every unused block of device 0 in a `torch.cuda.memory_snapshot`.

    Private pools are left out: a CUDA graph's replay may need what its capture left there.
    """
    for segment in snapshot:
        if segment.get("device", 0) != 0 or tuple(segment.get("segment_pool_id", (0, 0))) != (0, 0):
            continue
        address = segment["address"]
        for block in segment["blocks"]:
            if block["state"] == "inactive":
                yield block.get("address", address), block["size"]
            address += block["size"]

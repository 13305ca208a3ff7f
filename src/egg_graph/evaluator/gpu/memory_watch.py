"""How much of the GPU's memory a worker takes, seen from outside it.

The worker's own allocator is capped, but a candidate may get memory another way; the device knows of all of it.
"""

from __future__ import annotations

import torch

from egg_graph.evaluator.device.shared_memory import shared_bytes
from egg_graph.schema import Finding

CONTEXT = 2 << 30
"""Bytes granted beside the cap: the worker's CUDA context, its modules and the libraries' workspaces."""


class MemoryWatch:
    """Counts what others took since it was made; the judge's own memory is known and left out.

    It cannot tell two workers apart: where several run at once, none is watched.

    Args:
        fraction: of the GPU's memory that a worker may take.
    """

    def __init__(self, fraction: float) -> None:
        total = torch.cuda.mem_get_info()[1]
        self.cap = int(fraction * total) + CONTEXT
        self.before = self._by_others()

    def taken(self) -> int:
        """Bytes that others took since."""
        return self._by_others() - self.before

    def __call__(self) -> Finding | None:
        """A finding where it is more than the cap."""
        taken = self.taken()
        if taken <= self.cap:
            return None
        return Finding(
            kind="memory_exceeded",
            message=f"took {taken / 2**30:.1f} GiB of GPU memory, {self.cap / 2**30:.1f} GiB allowed",
            cure="allocate only what one forward needs; sizes come from the inputs",
        )

    @staticmethod
    def _by_others() -> int:
        free, total = torch.cuda.mem_get_info()
        return total - free - torch.cuda.memory_reserved() - shared_bytes[0]

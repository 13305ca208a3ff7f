"""When a judge has the GPU to itself: for what it measures; for answers it shares the GPU with other judges."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from egg_graph.evaluator.device.lease import Lease


@dataclass
class GpuAccess:
    """One judge's turns on one GPU.

    Args:
        lease: of the GPU; None where there is none, and nothing to wait for.
    """

    lease: Lease | None = None
    alone: bool = False
    """Within `alone_throughout`: the other two have nothing more to wait for."""
    waited: float = 0.0
    """Seconds spent waiting for others, in all."""
    crowded: bool = False
    """Whether others were seen on the GPU while answers were computed."""

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Answers: others may compute at the same time, and nobody measures."""
        with self._holding(shared=True):
            self._look_around()
            try:
                yield
            finally:
                self._look_around()

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """Times: nobody else uses the GPU."""
        with self._holding(shared=False):
            yield

    @contextmanager
    def alone_throughout(self) -> Iterator[None]:
        """All of a block, answers included: for what others may have disturbed."""
        with self._holding(shared=False):
            self.alone = True
            try:
                yield
            finally:
                self.alone = False

    @contextmanager
    def _holding(self, *, shared: bool) -> Iterator[None]:
        if self.lease is None or self.alone:
            yield
            return
        with self.lease.held(shared=shared) as waited:
            self.waited += waited
            yield

    def _look_around(self) -> None:
        if self.lease is not None and not self.alone:
            self.crowded |= any(holder != os.getpid() for holder in self.lease.holders())


def access_to(device: str) -> GpuAccess:
    """GpuAccess on PyTorch's first GPU; nothing to wait for where `device` is none."""
    import torch

    if device != "gpu":
        return GpuAccess()
    return GpuAccess(Lease(f"GPU-{torch.cuda.get_device_properties(0).uuid}"))

"""All memory that the judge shares with one worker: slabs with every tensor between two bands of NaN.

    | band 4 KiB | tensor | band 4 KiB | band 4 KiB | tensor | ...

A kernel that writes past the end of a tensor changes a band, which the judge compares byte by byte; one that reads
past it gets a NaN that shows in its answer. A slab is whole granules of the driver (2 MiB): the driver shares whole
granules, and whatever else lay in one would be shared as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch

from egg_graph.evaluator.device.shared_memory import SharedBuffer, shaped
from egg_graph.evaluator.wire.exchange import dtype_name

BAND = 4096
"""Bytes of poison on each side of a tensor."""
ALIGNMENT = 256
"""Of every tensor, in bytes: as PyTorch's allocator would give, or a kernel's vector loads would differ."""
GRANULE = 2 << 20
"""What the driver hands out and shares at least."""
SLAB = 8 << 20
"""Tensors that fit share a slab of this size; a larger one has its own."""

BAND_BITS = {
    torch.float16: 0x7E5B,
    torch.bfloat16: 0x7FDD,
    torch.float32: 0x7FDEBA4D,
    torch.float64: 0x7FFBBA4DBA4DBA4D,
}
"""The NaN that a band holds, by dtype of the tensor between: another than fresh memory's, so that it can be told."""
LARGE_BITS = {torch.float16: 0x7BFF, torch.bfloat16: 0x7F00, torch.float32: 0x7F000000, torch.float64: 0x7FE << 52}
"""Large and finite: what a maximum cannot drop as it drops a NaN."""
_INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}

Side = Literal["before", "after"]
Content = Literal["nan", "large"]


class Buffer(Protocol):
    """Memory that another process can open by a handle (`gpu_memory.SharedBuffer`)."""

    nbytes: int

    def handle(self) -> str: ...

    def raw(self, offset: int, nbytes: int) -> torch.Tensor: ...

    def free(self) -> None: ...


@dataclass(frozen=True)
class Overrun:
    """Bytes beside a tensor that somebody changed."""

    name: str
    """Of the tensor, as `share` was told."""
    side: Side
    changed: int
    """How many bytes of the band are not as they were."""
    nearest: int
    """Distance of the nearest changed byte from the tensor; 0 touches it."""


@dataclass
class Guard:
    """The two bands of one tensor."""

    name: str
    dtype: torch.dtype
    before: torch.Tensor
    after: torch.Tensor
    content: Content = "nan"

    def fill(self, content: Content) -> None:
        """(Re)write both bands."""
        self.content = content
        for band in (self.before, self.after):
            band.copy_(_pattern(self.dtype, band, content))

    def overruns(self) -> list[Overrun]:
        """What was changed since `fill`."""
        found = []
        sides: tuple[tuple[Side, torch.Tensor], ...] = (("before", self.before), ("after", self.after))
        for side, band in sides:
            changed = (band != _pattern(self.dtype, band, self.content)).nonzero().flatten()
            if changed.numel():
                nearest = int(changed[0]) if side == "after" else band.numel() - 1 - int(changed[-1])
                found.append(Overrun(self.name, side, int(changed.numel()), nearest))
        return found


class Arena:
    """All buffers shared with one worker; freed together.

    Args:
        allocate: memory of so many bytes; another source of it serves tests without a GPU.
    """

    def __init__(self, allocate: Callable[[int], Buffer] = SharedBuffer.allocate) -> None:
        self.allocate = allocate
        self.buffers: list[Buffer] = []
        self.handles: list[str] = []
        self.guards: list[Guard] = []
        self.content: Content = "nan"
        """Of all bands."""
        self._room: tuple[int, int] = (0, 0)  # offset of the free part of the last small slab, and its end
        self._slab = -1  # number of that slab

    def share(
        self, tensor: torch.Tensor, *, name: str = "", guarded: bool = True
    ) -> tuple[torch.Tensor, dict[str, Any]]:
        """A shared copy of a tensor, and the form by which the other process opens it.

        Args:
            tensor: of any shape; one that is not dense is made contiguous.
            name: for messages about its bands.
            guarded: whether it lies between bands.
        """
        dense = bool(torch.ops.aten.is_non_overlapping_and_dense(tensor))
        stride = tensor.stride() if dense else tensor.contiguous().stride()
        mine, form = self.empty(tensor.shape, tensor.dtype, stride, name=name, guarded=guarded)
        mine.copy_(tensor)
        return mine, form

    def empty(
        self,
        shape: tuple[int, ...] | torch.Size,
        dtype: torch.dtype,
        stride: tuple[int, ...] | None = None,
        *,
        name: str = "",
        guarded: bool = True,
    ) -> tuple[torch.Tensor, dict[str, Any]]:
        """A shared tensor of unset content, and its form: dtype, shape, stride (elements), handle, offset (bytes).

        Raises:
            torch.OutOfMemoryError: where the GPU has no more.
        """
        like = torch.empty(shape, dtype=dtype, device="meta")
        nbytes = math.prod(shape) * dtype.itemsize
        band = BAND if guarded else 0
        number, offset = self._place(band + _up(nbytes, ALIGNMENT) + band)
        buffer = self.buffers[number]
        if guarded:
            start = offset + band
            after = buffer.raw(start + nbytes, _up(nbytes, ALIGNMENT) - nbytes + band)
            guard = Guard(name, dtype, buffer.raw(offset, band), after)
            guard.fill(self.content)
            self.guards.append(guard)
        form = {
            "dtype": dtype_name(like),
            "shape": list(shape),
            "stride": list(stride or like.stride()),
            "handle": self.handles[number],
            "offset": offset + band,
        }
        return shaped(buffer.raw(offset + band, nbytes), form), form

    def fill_bands(self, content: Content) -> None:
        """Other content for every band: an answer that changes with it was read from out of bounds."""
        self.content = content
        for guard in self.guards:
            guard.fill(content)
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    def overruns(self) -> list[Overrun]:
        """What was written beside any of the tensors."""
        return [overrun for guard in self.guards for overrun in guard.overruns()]

    def free(self) -> None:
        """Free all of it. Tensors over it must not be used again."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.guards.clear()
        self._slab, self._room = -1, (0, 0)
        while self.buffers:
            self.buffers.pop().free()

    def _place(self, nbytes: int) -> tuple[int, int]:
        """Number of a buffer with so much room, and where in it."""
        if nbytes > SLAB // 2:
            return self._add(nbytes), 0
        if self._slab < 0 or self._room[0] + nbytes > self._room[1]:
            self._slab = self._add(SLAB)
            self._room = (0, SLAB)
        offset = self._room[0]
        self._room = (offset + nbytes, self._room[1])
        return self._slab, offset

    def _add(self, nbytes: int) -> int:
        buffer = self.allocate(_up(nbytes, GRANULE))
        self.buffers.append(buffer)
        self.handles.append(buffer.handle())
        return len(self.buffers) - 1


def _up(nbytes: int, unit: int) -> int:
    return -(-nbytes // unit) * unit


def _pattern(dtype: torch.dtype, band: torch.Tensor, content: Content) -> torch.Tensor:
    """What a band beside a tensor of `dtype` holds: whole elements of a NaN or a large number, else small bytes."""
    pattern = torch.full_like(band, 90 if content == "nan" else 3)
    values = BAND_BITS if content == "nan" else LARGE_BITS
    real = torch.empty(0, dtype=dtype).real.dtype if dtype.is_complex else dtype
    if real in values:
        whole = band.numel() // real.itemsize * real.itemsize
        pattern[:whole].view(_INTEGERS[real.itemsize]).fill_(values[real])
    return pattern


def from_a_band(tensor: torch.Tensor) -> torch.Tensor:
    """Mask of elements that were read from beside a tensor and handed on as they were."""
    if tensor.dtype not in BAND_BITS:
        return torch.zeros(tensor.shape, dtype=torch.bool, device=tensor.device)
    return tensor.contiguous().view(_INTEGERS[tensor.dtype.itemsize]) == BAND_BITS[tensor.dtype]

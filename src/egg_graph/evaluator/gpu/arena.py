"""GPU memory of one worker: shared tensors between guard bands of NaN, and a limit on what it takes beside them.

    | band 4 KiB | tensor | band 4 KiB | band 4 KiB | tensor | ...

A kernel that writes past the end of a tensor changes a band, which the judge compares byte by byte. A kernel that reads
past it gets a NaN that shows in its answer. Tensors lie in slabs of whole driver granules (2 MiB): the driver shares
whole granules, so anything else in one would be shared as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch

from egg_graph.evaluator.device.shared_memory import SharedBuffer, shaped, shared_bytes
from egg_graph.evaluator.spending import note_peak
from egg_graph.evaluator.wire.exchange import dtype_name
from egg_graph.evaluator.wire.poison import INTEGERS, holding
from egg_graph.schema import Finding

BAND = 4096
"""Size of the guard band on each side of a tensor [bytes]."""
ALIGNMENT = 256
"""Alignment of every tensor [bytes], as PyTorch's allocator gives it; with less, kernels would load differently."""
GRANULE = 2 << 20
"""Smallest piece of memory that the driver hands out and shares [bytes]."""
SLAB = 8 << 20
"""Size of a slab that several tensors share [bytes]. A tensor of more than half of it has a buffer of its own."""
CONTEXT = 2 << 30
"""Memory granted to a worker beside its limit [bytes]: CUDA context, modules and workspaces of libraries."""

BAND_BITS = {
    torch.float16: 0x7E5B,
    torch.bfloat16: 0x7FDD,
    torch.float32: 0x7FDEBA4D,
    torch.float64: 0x7FFBBA4DBA4DBA4D,
}
"""Bits of the NaN that a guard band holds, by dtype of its tensor. Fresh memory holds another NaN, so that the two can
be told apart."""
LARGE_BITS = {torch.float16: 0x7BFF, torch.bfloat16: 0x7F00, torch.float32: 0x7F000000, torch.float64: 0x7FE << 52}
"""Bits of a large finite number, by dtype. A maximum can drop a NaN, but not this."""

Side = Literal["before", "after"]
Content = Literal["nan", "large"]


class Buffer(Protocol):
    """Memory that another process can open by a handle (see `SharedBuffer`)."""

    nbytes: int

    def handle(self) -> str: ...

    def raw(self, offset: int, nbytes: int) -> torch.Tensor: ...

    def free(self) -> None: ...


@dataclass(frozen=True)
class Overrun:
    """A changed guard band."""

    name: str
    """Name of the tensor, as given to `share`."""
    side: Side
    """Whether the band lies before or after the tensor."""
    changed: int
    """Number of changed bytes."""
    nearest: int
    """Distance of the nearest changed byte from the tensor [bytes]; 0 if it touches the tensor."""


@dataclass
class Guard:
    """The two guard bands of one tensor."""

    name: str
    dtype: torch.dtype
    before: torch.Tensor
    after: torch.Tensor
    content: Content = "nan"

    def fill(self, content: Content) -> None:
        """Write both bands."""
        self.content = content
        for band in (self.before, self.after):
            band.copy_(_pattern(self.dtype, band, content))

    def overruns(self) -> list[Overrun]:
        """Return what was changed since `fill`."""
        found = []
        sides: tuple[tuple[Side, torch.Tensor], ...] = (("before", self.before), ("after", self.after))
        for side, band in sides:
            changed = (band != _pattern(self.dtype, band, self.content)).nonzero().flatten()
            if changed.numel():
                nearest = int(changed[0]) if side == "after" else band.numel() - 1 - int(changed[-1])
                found.append(Overrun(self.name, side, int(changed.numel()), nearest))
        return found


class Arena:
    """All buffers that are shared with one worker. They are freed together.

    Args:
        allocate: allocates memory of a given size [bytes]; tests without a GPU pass another source.
    """

    def __init__(self, allocate: Callable[[int], Buffer] = SharedBuffer.allocate) -> None:
        self.allocate = allocate
        self.buffers: list[Buffer] = []
        self.handles: list[str] = []
        self.guards: list[Guard] = []
        self.content: Content = "nan"
        """What all bands hold."""
        self._room: tuple[int, int] = (0, 0)  # begin and end of the free part of the last slab [bytes]
        self._slab = -1  # number of that slab among the buffers; -1 if there is none

    def share(
        self, tensor: torch.Tensor, *, name: str = "", guarded: bool = True
    ) -> tuple[torch.Tensor, dict[str, Any]]:
        """Copy a tensor into shared memory; returns the copy and the form by which the other process opens it.

        Args:
            tensor: of any shape; if it is not dense, the copy is contiguous.
            name: for messages about its guard bands.
            guarded: whether the copy lies between guard bands.
        """
        dense = bool(torch.ops.aten.is_non_overlapping_and_dense(tensor))
        stride = tensor.stride() if dense else tensor.contiguous().stride()
        copy, form = self.empty(tensor.shape, tensor.dtype, stride, name=name, guarded=guarded)
        copy.copy_(tensor)
        return copy, form

    def empty(
        self,
        shape: tuple[int, ...] | torch.Size,
        dtype: torch.dtype,
        stride: tuple[int, ...] | None = None,
        *,
        name: str = "",
        guarded: bool = True,
    ) -> tuple[torch.Tensor, dict[str, Any]]:
        """Allocate a shared tensor of unset content; returns it and its form.

        The form holds dtype, shape, stride [elements], handle and offset [bytes].

        Args:
            shape: of the tensor.
            dtype: of the tensor.
            stride: of a dense tensor [elements]; contiguous if None.
            name: for messages about its guard bands.
            guarded: whether the tensor lies between guard bands.

        Raises:
            torch.OutOfMemoryError: if the GPU has no more memory.
        """
        like = torch.empty(shape, dtype=dtype, device="meta")
        nbytes = math.prod(shape) * dtype.itemsize
        band = BAND if guarded else 0
        number, offset = self._find_room(band + _round_up(nbytes, ALIGNMENT) + band)
        buffer = self.buffers[number]
        if guarded:
            start = offset + band
            after = buffer.raw(start + nbytes, _round_up(nbytes, ALIGNMENT) - nbytes + band)
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
        """Write other content into every band. An answer that changes with it was read from out of bounds."""
        self.content = content
        for guard in self.guards:
            guard.fill(content)
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    def overruns(self) -> list[Overrun]:
        """Return what was written beside any of the tensors."""
        return [overrun for guard in self.guards for overrun in guard.overruns()]

    def free(self) -> None:
        """Free all buffers. Tensors over them must not be used again."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.guards.clear()
        self._slab, self._room = -1, (0, 0)
        while self.buffers:
            self.buffers.pop().free()

    def _find_room(self, nbytes: int) -> tuple[int, int]:
        """Find room for `nbytes`; returns the number of the buffer and the offset in it [bytes]."""
        if nbytes > SLAB // 2:
            return self._add(nbytes), 0
        if self._slab < 0 or self._room[0] + nbytes > self._room[1]:
            self._slab = self._add(SLAB)
            self._room = (0, SLAB)
        offset = self._room[0]
        self._room = (offset + nbytes, self._room[1])
        return self._slab, offset

    def _add(self, nbytes: int) -> int:
        buffer = self.allocate(_round_up(nbytes, GRANULE))
        self.buffers.append(buffer)
        self.handles.append(buffer.handle())
        return len(self.buffers) - 1


def _round_up(nbytes: int, unit: int) -> int:
    return -(-nbytes // unit) * unit


def _pattern(dtype: torch.dtype, band: torch.Tensor, content: Content) -> torch.Tensor:
    """Return the content of a band beside a tensor of `dtype`.

    It is whole elements of a NaN or a large number for floating-point dtypes, and small bytes for others.
    """
    pattern = torch.full_like(band, 90 if content == "nan" else 3)
    values = BAND_BITS if content == "nan" else LARGE_BITS
    real = torch.empty(0, dtype=dtype).real.dtype if dtype.is_complex else dtype
    if real in values:
        whole = band.numel() // real.itemsize * real.itemsize
        pattern[:whole].view(INTEGERS[real.itemsize]).fill_(values[real])
    return pattern


def from_a_band(tensor: torch.Tensor) -> torch.Tensor:
    """Return a mask of the elements that hold the NaN of a guard band: they were read from beside a tensor."""
    return holding(tensor, BAND_BITS)


class MemoryLimit:
    """Limits the GPU memory that a worker takes, as seen from outside it.

    The worker's own allocator is capped, but a candidate may get memory in another way. The device knows of all memory.
    This class counts what other processes have taken since it was made; the judge's own memory is left out. It cannot
    tell two workers apart: while several run at once, none is limited this way.

    Args:
        fraction: part of the GPU's memory that a worker may take, 0 to 1.
    """

    def __init__(self, fraction: float) -> None:
        total = torch.cuda.mem_get_info()[1]
        self.limit = int(fraction * total) + CONTEXT
        """Memory that others may take [bytes]."""
        self.before = self._taken_by_others()

    def taken(self) -> int:
        """Return how much memory others have taken since [bytes]."""
        return self._taken_by_others() - self.before

    @contextmanager
    def leaving_out(self) -> Iterator[None]:
        """Do not count what others take in the block."""
        before = self._taken_by_others()
        yield
        self.before += self._taken_by_others() - before

    def __call__(self) -> Finding | None:
        """Return a finding if others have taken more than the limit."""
        taken = self.taken()
        note_peak("candidate", taken)
        if taken <= self.limit:
            return None
        return Finding(
            kind="memory_exceeded",
            message=f"took {taken / 2**30:.1f} GiB of GPU memory, {self.limit / 2**30:.1f} GiB allowed",
            cure="allocate only what one forward needs; sizes come from the inputs",
        )

    @staticmethod
    def _taken_by_others() -> int:
        free, total = torch.cuda.mem_get_info()
        return total - free - torch.cuda.memory_reserved() - shared_bytes[0]

"""Virtual addresses: every load and store of a kernel is checked against the tensor it belongs to.

A kernel receives virtual base pointers. The upper bits of an address number the storage it was derived from, so
an access is known to be inside or outside of it without touching memory. Each storage sits in the middle of a
4 TiB window, so an index that runs off either end still names its tensor.
"""

from collections.abc import Container
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from egg_graph.evaluator.interpreter.session import Session
from egg_graph.evaluator.interpreter.work import Work
from egg_graph.evaluator.wire.faults import KernelFault, Unfakeable

WINDOW_BITS = 42
LANES_PER_STEP = 4096
"""Of one access, beyond which it takes as long as two."""
MIDDLE = 1 << (WINDOW_BITS - 1)


@dataclass
class Region:
    """One storage that kernels may touch."""

    number: int
    nbytes: int
    address: int
    """Real address of its first byte; 0 in a fake run."""
    storage: Any
    """Kept, so that the address is not given to another tensor."""
    name: str = "?"
    """Argument of the launch under way that points here."""
    shape: tuple[int, ...] = ()
    viewed_bytes: int = 0
    """Distinct bytes that the launch's tensor arguments cover."""
    load_bytes: int = 0
    """Asked for by the launch under way."""
    store_bytes: int = 0
    touched: Any = None
    """Race map of the launch under way (real runs)."""
    most: dict[str, float] = field(default_factory=lambda: {"load": 0.0, "store": 0.0})
    """Bytes that all launches of a fake run together ask for at most, if programs are like those interpreted."""
    unsure: set[str] = field(default_factory=set)
    """Of these, what is no bound: programs are too unlike each other."""

    @property
    def base(self) -> int:
        """Virtual address of its first byte."""
        return (self.number << WINDOW_BITS) + MIDDLE


@dataclass(frozen=True)
class Written:
    """What kernels wrote of a storage."""

    elements: np.ndarray
    """Of each, whether."""
    nbytes: int
    """Of the storage when it was allocated: one that has grown since is another."""


@dataclass
class AddressSpace:
    """All storages that a run has handed to kernels."""

    regions: dict[int, Region] = field(default_factory=dict)
    """By number, from 1: address 0 belongs to nobody."""
    by_storage: dict[int, Region] = field(default_factory=dict)
    written: dict[int, Written] = field(default_factory=dict)
    """By storage key; kept for storages from `torch.empty` (real runs)."""

    stored: set[int] = field(default_factory=set)
    """Keys of the storages that kernels wrote to in the forward under way (real runs)."""
    host: Container[Any] = ()
    """Tensors that a kernel on a GPU could not reach."""

    def region_of(self, tensor: Any, *, fake: bool) -> Region:
        """The region of a tensor's storage, made at first sight."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self.by_storage:
            number = len(self.regions) + 1
            region = Region(number, int(storage.nbytes()), 0 if fake else storage.data_ptr(), storage)
            self.regions[number] = self.by_storage[key] = region
        region = self.by_storage[key]
        if not fake:  # a storage that was resized lies elsewhere
            region.nbytes, region.address = int(storage.nbytes()), storage.data_ptr()
        return region

    def pointer(self, tensor: Any, name: str, *, fake: bool) -> int:
        """Virtual address of a tensor's first element; `name` is the argument it is passed as."""
        if tensor in self.host:
            raise KernelFault(
                "exception",
                f"argument '{name}' lies on the host: a kernel cannot reach it",
                cure="Make it on the device of the inputs (device=x.device), or copy it there.",
            )
        region = self.region_of(tensor, fake=fake)
        region.name, region.shape = name, tuple(tensor.shape)
        region.viewed_bytes = min(region.nbytes, max(region.viewed_bytes, distinct_bytes(tensor)))
        return region.base + int(tensor.storage_offset()) * tensor.element_size()

    def forget(self) -> None:
        """Let go of every storage. Addresses given before name nothing any more."""
        self.regions.clear()
        self.by_storage.clear()
        self.written.clear()

    def end_launch(self, work: Work) -> None:
        """Add to what the launches of a fake run ask for together."""
        for region in self.regions.values():
            for verb, most in region.most.items():
                if region.viewed_bytes:
                    region.most[verb] = most + work.most(verb, region.number)
                    if work.sums.get((verb, region.number)) and not work.alike(verb, region.number):
                        region.unsure.add(verb)

    def begin_launch(self) -> None:
        """Forget what belongs to one launch only."""
        for region in self.regions.values():
            region.viewed_bytes = region.load_bytes = region.store_bytes = 0
            region.touched = None


def distinct_bytes(tensor: Any) -> int:
    """Bytes of a tensor, dimensions of stride 0 counted once."""
    elements = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        elements *= int(size) if stride != 0 or size == 0 else 1
    return elements * tensor.element_size()


@dataclass
class Access:
    """The lanes of one load, store or atomic, after the check."""

    region: Region | None
    """None if no lane is active or the lanes touch several storages."""
    offsets: np.ndarray
    """Byte offset of each lane within `region` (all lanes, active or not)."""
    addresses: np.ndarray
    """Real address of each lane; meaningless where `mask` is False, and in fake runs."""
    mask: np.ndarray
    active: int


def check_access(session: Session, pointers: np.ndarray, mask: np.ndarray, itemsize: int, verb: str) -> Access:
    """Check that every active lane lies inside the storage that its pointer was derived from.

    Args:
        session: the run under way.
        pointers: virtual addresses (uint64), any shape.
        mask: active lanes, broadcastable to `pointers`.
        itemsize: bytes per lane.
        verb: `load`, `store` or `atomic`.

    Raises:
        KernelFault: `out_of_bounds`, with argument, element, line and program.
    """
    mask = np.broadcast_to(mask, pointers.shape)
    active = int(np.count_nonzero(mask))
    session.steps += 1 + pointers.size // LANES_PER_STEP
    if active == 0:
        return Access(None, pointers, pointers, mask, 0)
    if active == pointers.size:
        low, high = int(pointers.min()), int(pointers.max())
    else:
        low = int(pointers.min(where=mask, initial=np.iinfo(np.uint64).max))
        high = int(pointers.max(where=mask, initial=0))
    region = session.memory.regions.get(low >> WINDOW_BITS)
    if region is None or high >> WINDOW_BITS != region.number:
        return _check_several(session, pointers, mask, itemsize, verb, active)
    if low < region.base or high + itemsize > region.base + region.nbytes:
        _raise_out_of_bounds(session, region, pointers, mask, itemsize, verb)
    count(session, region, active * itemsize, verb)
    offsets = pointers - np.uint64(region.base)
    return Access(region, offsets, offsets + np.uint64(region.address), mask, active)


def count(session: Session, region: Region, nbytes: int, verb: str) -> None:
    """Add to the requested bytes of the launch and of the region."""
    launch = session.launch
    assert launch is not None
    if verb == "load":
        launch.load_bytes += nbytes
        region.load_bytes += nbytes
        return
    session.memory.stored.add(region.storage._cdata)
    launch.store_bytes += nbytes
    region.store_bytes += nbytes
    if verb == "atomic":
        region.load_bytes += nbytes


def _check_several(
    session: Session, pointers: np.ndarray, mask: np.ndarray, itemsize: int, verb: str, active: int
) -> Access:
    """Lanes whose pointers come from different storages (`tl.where` on pointers), or from none."""
    addresses = np.zeros_like(pointers)
    numbers = pointers >> np.uint64(WINDOW_BITS)
    for number in np.unique(numbers[mask]):
        lanes = mask & (numbers == number)
        region = session.memory.regions.get(int(number))
        if region is None and session.fake:
            raise Unfakeable(f"a {verb} goes through an address that was read from memory")
        if region is None:
            raise KernelFault(
                "out_of_bounds",
                f"{verb} through a pointer that was derived from no tensor argument ({int(lanes.sum())} lanes)",
                session.where(f"program {session.launch.program if session.launch else ''}"),
                "Offset only pointers that are kernel arguments, and keep offsets below 2 TiB.",
            )
        part = check_access(session, pointers, lanes, itemsize, verb)
        addresses[lanes] = part.addresses[lanes]
    return Access(None, pointers, addresses, mask, active)


def _raise_out_of_bounds(
    session: Session, region: Region, pointers: np.ndarray, mask: np.ndarray, itemsize: int, verb: str
) -> None:
    offsets = pointers.astype(np.int64) - region.base
    outside = mask & ((offsets < 0) | (offsets + itemsize > region.nbytes))
    first = int(offsets[outside][0])
    assert session.launch is not None
    raise KernelFault(
        "out_of_bounds",
        f"{verb} outside of argument '{region.name}': element {first // itemsize}, but it has "
        f"{region.nbytes // itemsize} (shape {list(region.shape)}); {int(outside.sum())} of {pointers.size} lanes",
        session.where(f"argument '{region.name}'", f"program {session.launch.program}"),
        f"Mask the {verb} so that no lane reaches past the end of '{region.name}'.",
    )

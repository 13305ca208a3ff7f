"""Virtual addresses: every load and store of a kernel is checked against the tensor it belongs to.

A kernel receives virtual base pointers. The upper bits of an address number the storage it was derived from, so
an access is known to be inside or outside of it without touching memory. Each storage sits in the middle of a
4 TiB window, so an index that runs off either end still names its tensor.
"""

from collections.abc import Container
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from egg_graph.evaluator.interpreter.programs import Work
from egg_graph.evaluator.wire.faults import KernelFault

WINDOW_BITS = 42
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

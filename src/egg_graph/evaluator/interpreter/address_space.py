"""Virtual addresses: every load and store of a kernel is checked against the tensor it belongs to.

A kernel receives virtual base pointers. The upper bits of an address number the storage it was derived from, so
an access is known to be inside or outside of the storage before memory is touched. Each storage sits in the middle of
a 4 TiB window, so an index that runs off either end still names its tensor.
"""

from collections.abc import Container
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from egg_graph.evaluator.wire.faults import KernelFault

WINDOW_BITS = 42
MIDDLE = 1 << (WINDOW_BITS - 1)


@dataclass
class Region:
    """One storage that kernels may touch."""

    number: int
    nbytes: int
    address: int
    """Real address of the first byte; 0 in a fake run."""
    storage: Any
    """The storage itself, kept alive so that its address is not given to another tensor."""
    name: str = "?"
    """Argument of the current launch that points here."""
    shape: tuple[int, ...] = ()
    """Shape of that argument."""
    viewed_bytes: int = 0
    """Distinct bytes that the launch's tensor arguments cover."""
    load_bytes: int = 0
    """Bytes that the current launch has loaded, repeats included."""
    store_bytes: int = 0
    """Bytes that the current launch has stored, repeats included."""
    touched_from: int = 0
    """First byte that the current launch has touched; `nbytes` if it has touched none."""
    touched_to: int = 0
    """Byte behind the last one that it has touched; 0 if it has touched none."""
    shadow: Any = None
    """Shadow memory of the race detector for the current launch (real run)."""
    upper_bound: dict[str, float] = field(default_factory=lambda: {"load": 0.0, "store": 0.0})
    """Most bytes that all launches together load and store, if other programs are like the sampled ones (fake run)."""
    unbounded: set[str] = field(default_factory=set)
    """Keys of `upper_bound` that are no bounds, because the sampled programs differ too much."""

    @property
    def base(self) -> int:
        """Virtual address of the first byte."""
        return (self.number << WINDOW_BITS) + MIDDLE


@dataclass(frozen=True)
class WriteMap:
    """Which elements of one storage kernels wrote."""

    elements: np.ndarray
    """One boolean per element."""
    nbytes: int
    """Size of the storage when it was allocated. A storage of another size was reallocated by PyTorch since."""


@dataclass
class AddressSpace:
    """All storages that a run has handed to kernels."""

    regions: dict[int, Region] = field(default_factory=dict)
    """Region number -> region. Numbers begin at 1, so address 0 belongs to no region."""
    by_storage: dict[int, Region] = field(default_factory=dict)
    """Storage key -> region."""
    written: dict[int, WriteMap] = field(default_factory=dict)
    """Storage key -> elements that kernels wrote, for storages from `torch.empty` (real run)."""

    stored: set[int] = field(default_factory=set)
    """Keys of the storages that kernels wrote to in the current forward."""
    host: Container[Any] = ()
    """Tensors in host memory, which a kernel on a GPU could not reach."""

    def region_of(self, tensor: Any, *, fake: bool) -> Region:
        """Return the region of a tensor's storage; make it when the storage is new."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self.by_storage:
            number = len(self.regions) + 1
            nbytes, address = int(storage.nbytes()), 0 if fake else storage.data_ptr()
            region = Region(number, nbytes, address, storage, touched_from=nbytes)
            self.regions[number] = self.by_storage[key] = region
        region = self.by_storage[key]
        if not fake:  # resizing a storage moves it
            region.nbytes, region.address = int(storage.nbytes()), storage.data_ptr()
        return region

    def pointer(self, tensor: Any, name: str, *, fake: bool) -> int:
        """Return the virtual address of a tensor's first element.

        Args:
            tensor: a kernel argument.
            name: the parameter it is passed as.
            fake: whether the tensor has no memory.

        Raises:
            KernelFault: `exception`, if the tensor lies on the host.
        """
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
        """Release every storage. Virtual addresses given before become invalid."""
        self.regions.clear()
        self.by_storage.clear()
        self.written.clear()

    def begin_launch(self) -> None:
        """Reset the counters of each region and its shadow memory."""
        for region in self.regions.values():
            region.viewed_bytes = region.load_bytes = region.store_bytes = 0
            region.touched_from, region.touched_to = region.nbytes, 0
            region.shadow = None


def distinct_bytes(tensor: Any) -> int:
    """Count a tensor's bytes, with dimensions of stride 0 counted once."""
    elements = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        elements *= int(size) if stride != 0 or size == 0 else 1
    return elements * tensor.element_size()

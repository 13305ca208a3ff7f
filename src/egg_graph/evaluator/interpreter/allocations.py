"""Memory from `torch.empty*` holds nothing: it is poisoned, and what kernels leave unwritten is reported exactly."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import keystr, tree_flatten_with_path, tree_leaves

from egg_graph.evaluator.interpreter import number_formats
from egg_graph.evaluator.interpreter.address_space import AddressSpace, Written
from egg_graph.evaluator.wire import fresh_memory
from egg_graph.schema import Finding


@dataclass
class Allocation:
    """A storage from `torch.empty*`."""

    tensor: torch.Tensor
    version: int
    """Version counter after poisoning: it moves when PyTorch, not a kernel, writes."""


class Poison(TorchDispatchMode):
    """Fill fresh memory with poison and keep a map of what kernels write to it."""

    def __init__(self, memory: AddressSpace) -> None:
        super().__init__()
        self.memory = memory
        self.leftovers: fresh_memory.Leftovers | None = None
        """What fresh memory holds in place of poison."""
        self.allocations: dict[int, Allocation] = {}

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if fresh_memory.name_of(function) not in fresh_memory.GROWING:
            return function(*args, **(kwargs or {}))
        before = fresh_memory.sizes((args, kwargs))
        result = function(*args, **(kwargs or {}))
        fresh = fresh_memory.added(result, before)
        if fresh is None or fresh.untyped_storage().device.type != "cpu":  # the pretended GPU may answer for tensors
            return result
        (self.leftovers.fill if self.leftovers is not None else fill_with_poison)(fresh)
        storage = result.untyped_storage()
        if storage._cdata not in before:
            if not result.is_inference():  # those have no version to tell who wrote
                self.allocations[storage._cdata] = Allocation(result, result._version)
            self.memory.written[storage._cdata] = Written(np.zeros(fresh.numel(), bool), storage.nbytes())
        return result

    def unwritten(self, output: Any) -> list[Finding]:
        """Elements of output leaves that no kernel wrote, for leaves whose memory only kernels touched."""
        findings = []
        for path, leaf in tree_flatten_with_path(output)[0]:
            missing = self._missing(leaf) if isinstance(leaf, torch.Tensor) else None
            if missing is not None and missing.any():
                first = [int(i) for i in np.argwhere(missing)[0]]
                findings.append(
                    Finding(
                        kind="unwritten_output",
                        message=f"{int(missing.sum())} of {missing.size} elements of the output are never written, "
                        f"the first at index {first}",
                        where=f"output{keystr(path)}, shape {list(leaf.shape)}",
                        cure="Check the grid, the block size and the mask of the store: together they must cover it.",
                    )
                )
        return findings

    def missing(self, output: Any) -> list[torch.Tensor] | None:
        """Which elements of each output leaf no kernel wrote; None where that is not known of all of them."""
        leaves = [leaf for leaf in tree_leaves(output) if isinstance(leaf, torch.Tensor)]
        maps = [self._missing(leaf) for leaf in leaves]
        if not maps or any(found is None for found in maps):
            return None
        return [torch.from_numpy(np.array(found)).expand(leaf.shape) for found, leaf in zip(maps, leaves, strict=True)]

    def _missing(self, leaf: torch.Tensor) -> np.ndarray | None:
        if leaf.layout is not torch.strided:
            return None
        storage = leaf.untyped_storage()
        allocation = self.allocations.get(storage._cdata)
        if allocation is None or leaf.is_inference() or leaf._version != allocation.version:
            return None
        written = self.memory.written[storage._cdata].elements
        if self.memory.written[storage._cdata].nbytes != storage.nbytes():
            return None  # PyTorch moved it: only values tell
        if leaf.element_size() != allocation.tensor.element_size() or leaf.numel() == 0:
            return None
        shape = [1 if stride == 0 else size for size, stride in zip(leaf.shape, leaf.stride(), strict=True)]
        if math.prod(shape) > written.size:
            return None  # overlapping views of any size: their form is judged elsewhere
        view = np.lib.stride_tricks.as_strided(
            written[leaf.storage_offset() :], tuple(shape), tuple(leaf.stride()), writeable=False
        )
        return ~view


def watch_storages() -> None:
    """`storage.resize_` is no operator: what it adds is poisoned here, as NaN of any width."""
    original = torch.UntypedStorage.resize_

    def resize_(self: Any, size: int) -> Any:
        before = self.nbytes()
        result = original(self, size)
        with _disable_current_modes():
            fresh = fresh_memory.beyond(self, before, torch.bfloat16)
            if fresh is not None and self.device.type == "cpu":
                fill_with_poison(fresh)
        return result

    torch.UntypedStorage.resize_ = resize_


def fill_with_poison(flat: torch.Tensor) -> None:
    """Fill a one-dimensional tensor with what is recognisably undefined."""
    size = flat.element_size()
    if flat.dtype in (torch.float16, torch.float32, torch.float64):
        flat.view({2: torch.int16, 4: torch.int32, 8: torch.int64}[size]).fill_(number_formats.POISON_BITS[size])
    elif flat.dtype == torch.bfloat16:
        flat.view(torch.int16).fill_(number_formats.POISON_BFLOAT16)
    elif flat.dtype.is_floating_point:
        flat.view(torch.uint8).fill_(0x7F)
    elif flat.dtype.is_complex:
        fill_with_poison(torch.view_as_real(flat).reshape(-1))
    elif flat.dtype == torch.bool:
        flat.fill_(True)
        flat[::7].fill_(False)  # neither is what fresh memory holds
    else:
        flat.fill_(number_formats.POISON_INTEGER[size])

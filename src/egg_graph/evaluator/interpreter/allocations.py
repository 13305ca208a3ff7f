"""Uninitialised memory: what `torch.empty*` allocates is poisoned, and elements that no kernel writes are reported."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import keystr, tree_flatten_with_path, tree_leaves

from egg_graph.evaluator.interpreter.address_space import AddressSpace, WriteMap
from egg_graph.evaluator.interpreter.poison import fill_with_poison
from egg_graph.evaluator.wire import uninitialized
from egg_graph.schema import Finding


@dataclass
class Allocation:
    """A tensor from `torch.empty*`, which owns its storage."""

    tensor: torch.Tensor
    version: int
    """Version counter after poisoning. It moves when PyTorch writes, but not when a kernel does."""


class PoisonMode(TorchDispatchMode):
    """Dispatch mode that poisons fresh memory and keeps a map of what kernels write to it.

    Args:
        memory: the run's address space, which holds the maps.
    """

    def __init__(self, memory: AddressSpace) -> None:
        super().__init__()
        self.memory = memory
        self.leftovers: uninitialized.Leftovers | None = None
        """Numbers to fill fresh memory with; None fills it with poison."""
        self.allocations: dict[int, Allocation] = {}
        """Storage key -> allocation."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result, fresh, is_new = uninitialized.call_and_find(function, args, kwargs or {})
        # Under the simulated GPU, `fresh.device` says cuda.
        if fresh is None or fresh.untyped_storage().device.type != "cpu":
            return result
        (self.leftovers.fill if self.leftovers is not None else fill_with_poison)(fresh)
        if is_new:
            storage = result.untyped_storage()
            if not result.is_inference():  # an inference tensor has no version counter
                self.allocations[storage._cdata] = Allocation(result, result._version)
            self.memory.written[storage._cdata] = WriteMap(np.zeros(fresh.numel(), bool), storage.nbytes())
        return result

    def unwritten(self, output: Any) -> list[Finding]:
        """Report the elements that no kernel wrote, for output leaves whose memory only kernels touched."""
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
        """Return which elements of each output leaf no kernel wrote; None unless that is known of every leaf."""
        leaves = [leaf for leaf in tree_leaves(output) if isinstance(leaf, torch.Tensor)]
        maps = [self._missing(leaf) for leaf in leaves]
        if not maps or any(found is None for found in maps):
            return None
        return [torch.from_numpy(np.array(found)).expand(leaf.shape) for found, leaf in zip(maps, leaves, strict=True)]

    def _missing(self, leaf: torch.Tensor) -> np.ndarray | None:
        """Return which elements of a leaf no kernel wrote, dimensions of stride 0 cut to size 1; None if not known."""
        if leaf.layout is not torch.strided:
            return None
        storage = leaf.untyped_storage()
        allocation = self.allocations.get(storage._cdata)
        if allocation is None or leaf.is_inference() or leaf._version != allocation.version:
            return None
        written = self.memory.written[storage._cdata].elements
        if self.memory.written[storage._cdata].nbytes != storage.nbytes():
            return None  # PyTorch moved the storage
        if leaf.element_size() != allocation.tensor.element_size() or leaf.numel() == 0:
            return None
        shape = [1 if stride == 0 else size for size, stride in zip(leaf.shape, leaf.stride(), strict=True)]
        if math.prod(shape) > written.size:
            return None  # a view that overlaps itself; its shape is judged elsewhere
        view = np.lib.stride_tricks.as_strided(
            written[leaf.storage_offset() :], tuple(shape), tuple(leaf.stride()), writeable=False
        )
        return ~view


def install() -> None:
    """Replace `UntypedStorage.resize_`, which dispatch modes do not see, so that the bytes it adds are poisoned.

    A storage has no dtype, so the bytes become bfloat16 poison, which is NaN when read as a float of any width.
    """
    original = torch.UntypedStorage.resize_

    def resize_(self: Any, size: int) -> Any:
        before = self.nbytes()
        result = original(self, size)
        with _disable_current_modes():
            fresh = uninitialized.storage_tail(self, before, torch.bfloat16)
            if fresh is not None and self.device.type == "cpu":
                fill_with_poison(fresh)
        return result

    torch.UntypedStorage.resize_ = resize_

"""How much of each tensor the launches surely move, and how much of it they can reach at most."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from egg_graph.evaluator.interpreter.address_space import AddressSpace, Region, distinct_bytes
from egg_graph.evaluator.interpreter.library_calls import LibraryRecorder, memory_of
from egg_graph.evaluator.interpreter.programs import ProgramCounts
from egg_graph.evaluator.wire.launches import Reach


def compulsory_bytes(memory: AddressSpace, counts: ProgramCounts) -> float:
    """Bound the DRAM traffic of a launch from below: each storage read once and written once, as far as is sure."""
    return sum(
        min(region.viewed_bytes, counts.lower_bound(verb, region.number))
        for region in memory.regions.values()
        for verb in ("load", "store")
    )


def add_upper_bounds(memory: AddressSpace, counts: ProgramCounts) -> None:
    """Add one launch of a fake run to the upper bounds of each region."""
    for region in memory.regions.values():
        for verb, bound in region.upper_bound.items():
            if region.viewed_bytes:
                region.upper_bound[verb] = bound + counts.upper_bound(verb, region.number)
                if counts.sums.get((verb, region.number)) and not counts.is_representative(verb, region.number):
                    region.unbounded.add(verb)


def reaches(memory: AddressSpace, recorder: LibraryRecorder, inputs: list[Any], output: Any) -> tuple[Reach, ...]:
    """Bound the bytes read of each input and written of each output leaf, where only kernels read or write it.

    A tensor is left out where the sampled programs say nothing about the others.

    Args:
        memory: the finished run's address space.
        recorder: the same run's library calls.
        inputs: arguments of forward.
        output: what forward returned.
    """
    found = []
    for index, given in enumerate(inputs):
        region = _region(memory, given)
        if region is not None and memory_of(given) not in recorder.operands and "load" not in region.unbounded:
            most = region.upper_bound["load"]
            found.append(Reach(tensor="input", index=index, nbytes=distinct_bytes(given), most=most))
    for index, leaf in enumerate(tree_leaves(output)):
        region = _region(memory, leaf)
        if region is not None and _only_kernels_wrote(recorder, leaf) and "store" not in region.unbounded:
            most = region.upper_bound["store"]
            found.append(Reach(tensor="output", index=index, nbytes=distinct_bytes(leaf), most=most))
    return tuple(found)


def _region(memory: AddressSpace, value: Any) -> Region | None:
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return None
    return memory.by_storage.get(value.untyped_storage()._cdata)


def _only_kernels_wrote(recorder: LibraryRecorder, leaf: torch.Tensor) -> bool:
    tensor, version = recorder.fresh.get(memory_of(leaf), (None, 0))
    return tensor is not None and not leaf.is_inference() and leaf._version == version

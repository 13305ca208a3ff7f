"""How much of each input the launches of a fake run can read at most, and how much of each output they can write."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from egg_graph.evaluator.interpreter.address_space import AddressSpace, Region, distinct_bytes
from egg_graph.evaluator.interpreter.library_calls import LibraryRecorder, memory_of
from egg_graph.evaluator.wire.launches import Reach


def reaches(memory: AddressSpace, recorder: LibraryRecorder, inputs: list[Any], output: Any) -> tuple[Reach, ...]:
    """Of tensors that kernels alone read, or alone write; empty where the sampled programs say nothing about others.

    Args:
        memory: of the run, which has ended.
        recorder: of the same run.
        inputs: of forward.
        output: what it returned.
    """
    found = []
    for index, given in enumerate(inputs):
        region = _region(memory, given)
        if region is not None and memory_of(given) not in recorder.operands and "load" not in region.unsure:
            found.append(Reach(tensor="input", index=index, nbytes=distinct_bytes(given), most=region.most["load"]))
    for index, leaf in enumerate(tree_leaves(output)):
        region = _region(memory, leaf)
        if region is not None and _only_kernels_wrote(recorder, leaf) and "store" not in region.unsure:
            found.append(Reach(tensor="output", index=index, nbytes=distinct_bytes(leaf), most=region.most["store"]))
    return tuple(found)


def _region(memory: AddressSpace, value: Any) -> Region | None:
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return None
    return memory.by_storage.get(value.untyped_storage()._cdata)


def _only_kernels_wrote(recorder: LibraryRecorder, leaf: torch.Tensor) -> bool:
    tensor, version = recorder.fresh.get(memory_of(leaf), (None, 0))
    return tensor is not None and not leaf.is_inference() and leaf._version == version

"""How much of each tensor the launches surely move, and how much of it they can reach at most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from egg_graph.evaluator.interpreter.address_space import AddressSpace, Region, distinct_bytes
from egg_graph.evaluator.interpreter.library_calls import LibraryRecorder, memory_of
from egg_graph.evaluator.interpreter.programs import ProgramCounts
from egg_graph.evaluator.wire.launches import Launch, Reach


def compulsory_bytes(counts: ProgramCounts, written: Mapping[int, float] | None = None) -> float:
    """Bound the DRAM traffic of a launch from below: each storage read once and written once, as far as is sure.

    Args:
        counts: of the launch, with the bytes that its arguments view.
        written: as `ProgramCounts.lower_bound` takes it.
    """
    return sum(
        min(viewed, counts.lower_bound(verb, region, written))
        for region, viewed in counts.viewed.items()
        for verb in ("load", "store")
    )


def with_written_outputs(
    launches: Sequence[Launch],
    counts: Sequence[ProgramCounts],
    memory: AddressSpace,
    recorder: LibraryRecorder,
    output: Any,
) -> tuple[Launch, ...]:
    """Raise the lower bounds of launches that write all of an output leaf: no other launch and no operator writes it.

    Args:
        launches, counts: of a finished fake run, in its order.
        memory: the run's address space.
        recorder: the run's library calls.
        output: what forward returned.
    """
    written: list[dict[int, float]] = [{} for _ in counts]
    for leaf in tree_leaves(output):
        region = _region(memory, leaf)
        if region is None or not _only_kernels_wrote(recorder, leaf):
            continue
        writers = [i for i, one in enumerate(counts) if one.sums.get(("store", region.number))]
        if len(writers) == 1:
            written[writers[0]][region.number] = distinct_bytes(leaf)
    return tuple(
        launch.model_copy(
            update={
                "compulsory_bytes": compulsory_bytes(one, known),
                "least_dot_flops": {name: one.lower_bound("dot", name, known) for name in launch.dot_flops},
            }
        )
        if known
        else launch
        for launch, one, known in zip(launches, counts, written, strict=True)
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

"""Bounds check: every load, store and atomic is held against the storage that its pointers were derived from."""

from dataclasses import dataclass

import numpy as np

from egg_graph.evaluator.interpreter.address_space import WINDOW_BITS, Region
from egg_graph.evaluator.interpreter.run_state import RunState
from egg_graph.evaluator.wire.faults import KernelFault, Unfakeable

LANES_PER_STEP = 4096
"""Lanes of one access that count as one interpreter step."""


@dataclass
class Access:
    """The lanes of one load, store or atomic that passed the check."""

    region: Region | None
    """The storage; None if no lane is active or the lanes touch several storages."""
    offsets: np.ndarray
    """Byte offset of each lane within `region`, for all lanes, active or not."""
    addresses: np.ndarray
    """Real address of each lane; meaningless where `mask` is False, and in fake runs."""
    mask: np.ndarray
    active: int
    """Number of active lanes."""


def check_bounds(run: RunState, pointers: np.ndarray, mask: np.ndarray, itemsize: int, verb: str) -> Access:
    """Check that every active lane lies inside the storage that its pointer was derived from, and count its bytes.

    Args:
        run: the current run.
        pointers: virtual addresses (uint64), any shape.
        mask: active lanes, broadcastable to `pointers`.
        itemsize: bytes per lane.
        verb: `load`, `store` or `atomic`.

    Raises:
        KernelFault: `out_of_bounds`, with argument, element, line and program.
        Unfakeable: in a fake run, if an address was itself loaded from memory, or may hang on integers that are not
            known, where those of inputs are the greatest.
    """
    mask = np.broadcast_to(mask, pointers.shape)
    active = int(np.count_nonzero(mask))
    run.steps += 1 + pointers.size // LANES_PER_STEP
    if active == 0:
        return Access(None, pointers, pointers, mask, 0)
    if active == pointers.size:
        low, high = int(pointers.min()), int(pointers.max())
    else:
        low = int(pointers.min(where=mask, initial=np.iinfo(np.uint64).max))
        high = int(pointers.max(where=mask, initial=0))
    region = run.memory.regions.get(low >> WINDOW_BITS)
    if region is None or high >> WINDOW_BITS != region.number:
        return _check_several(run, pointers, mask, itemsize, verb, active)
    if low < region.base or high + itemsize > region.base + region.nbytes:
        _raise_out_of_bounds(run, region, pointers, mask, itemsize, verb)
    count_bytes(run, region, active * itemsize, verb)
    note_touched(region, low - region.base, high + itemsize - region.base)
    offsets = pointers - np.uint64(region.base)
    return Access(region, offsets, offsets + np.uint64(region.address), mask, active)


def note_touched(region: Region, start: int, end: int) -> None:
    """Note that the current launch touched bytes from `start` to before `end`."""
    region.touched_from, region.touched_to = min(region.touched_from, start), max(region.touched_to, end)


def count_bytes(run: RunState, region: Region, nbytes: int, verb: str) -> None:
    """Add requested bytes to the counters of the launch and of the region."""
    launch = run.launch
    assert launch is not None
    if verb == "load":
        launch.load_bytes += nbytes
        region.load_bytes += nbytes
        return
    run.memory.stored.add(region.storage._cdata)
    launch.store_bytes += nbytes
    region.store_bytes += nbytes
    if verb == "atomic":
        region.load_bytes += nbytes


def _check_several(
    run: RunState, pointers: np.ndarray, mask: np.ndarray, itemsize: int, verb: str, active: int
) -> Access:
    """Check lanes whose pointers come from different storages (`tl.where` on pointers), or from none."""
    addresses = np.zeros_like(pointers)
    numbers = pointers >> np.uint64(WINDOW_BITS)
    for number in np.unique(numbers[mask]):
        lanes = mask & (numbers == number)
        region = run.memory.regions.get(int(number))
        if region is None and run.fake:
            raise Unfakeable(f"a {verb} goes through an address that was read from memory")
        if region is None:
            raise KernelFault(
                "out_of_bounds",
                f"{verb} through a pointer that was derived from no tensor argument ({int(lanes.sum())} lanes)",
                run.where(f"program {run.launch.program if run.launch else ''}"),
                "Offset only pointers that are kernel arguments, and keep offsets below 2 TiB.",
            )
        part = check_bounds(run, pointers, lanes, itemsize, verb)
        addresses[lanes] = part.addresses[lanes]
    return Access(None, pointers, addresses, mask, active)


def _raise_out_of_bounds(
    run: RunState, region: Region, pointers: np.ndarray, mask: np.ndarray, itemsize: int, verb: str
) -> None:
    offsets = pointers.astype(np.int64) - region.base
    outside = mask & ((offsets < 0) | (offsets + itemsize > region.nbytes))
    first = int(offsets[outside][0])
    assert run.launch is not None
    if run.max_loads and run.launch.unknown_integers:
        raise Unfakeable("an address depends on integers that other kernels store, beside the greatest ones of inputs")
    raise KernelFault(
        "out_of_bounds",
        f"{verb} outside of argument '{region.name}': element {first // itemsize}, but it has "
        f"{region.nbytes // itemsize} (shape {list(region.shape)}); {int(outside.sum())} of {pointers.size} lanes",
        run.where(f"argument '{region.name}'", f"program {run.launch.program}"),
        f"Mask the {verb} so that no lane reaches past the end of '{region.name}'.",
    )

"""Race detector: finds data races between programs, and between the threads of one program, within one launch.

A serial interpreter hides races, so shadow memory holds who last wrote and read each element. An access races with an
earlier one to the same element unless the earlier one happens before it:

- Between programs, atomics order accesses. A program's writes before one of its atomics (release) happen before another
  program's accesses after an atomic of its own (acquire). Any pair of atomics counts, whatever its address and order.
- Between the threads of one program, barriers do. Within one epoch (from one barrier to the next) a lane sees only what
  the same lane wrote.
"""

from dataclasses import dataclass, field

import numpy as np

from egg_graph.evaluator.interpreter.bounds_check import Access
from egg_graph.evaluator.interpreter.run_state import LaunchState, RunState
from egg_graph.schema import Finding

SEVERAL = -1
"""Stands for more than one program or lane."""
BARRIER_CURE = "Put tl.debug_barrier() between the two, or keep the values in registers (tl.trans, tl.sum, tl.gather)."
OWNER_CURE = "Let each program own its output elements, or combine with tl.atomic_add, or split into two launches."


@dataclass
class LaneShadow:
    """Per element, the lane that last touched it, and in which epoch.

    Blocks of one shape are laid out alike over a program's threads, so a lane of one block is the same thread as that
    lane of another block of the shape.
    """

    size: int
    """Number of elements."""
    lane: np.ndarray = field(init=False)
    epoch: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.lane, self.epoch = np.zeros(self.size, np.int64), np.zeros(self.size, np.int32)

    def refine(self, factor: int) -> None:
        """Split each element into `factor` smaller ones."""
        self.lane, self.epoch = np.repeat(self.lane, factor), np.repeat(self.epoch, factor)

    def touched_by_others(self, index: np.ndarray, lane: np.ndarray, epoch: int) -> np.ndarray:
        """Return for each element of `index` whether a lane other than `lane` touched it in this epoch."""
        return (self.epoch[index] == epoch) & (self.lane[index] != lane)


class ShadowMemory:
    """Per element of one storage, who last wrote it and who read it. Programs are numbered from 1; 0 is nobody."""

    def __init__(self, nbytes: int, granule: int) -> None:
        self.granule = granule
        """Bytes per element."""
        self.writer = np.zeros(max(1, nbytes // granule), np.int32)
        self.reader = np.zeros_like(self.writer)
        self.written_at = np.zeros_like(self.writer)
        """The launch's atomic clock when each element was last written."""
        self.stored: LaneShadow | None = None
        """Lanes that stored; None before the first store."""
        self.loaded: LaneShadow | None = None
        """Lanes that loaded; None unless the storage was stored to before."""
        self.loads: list[tuple[np.ndarray, np.ndarray]] = []
        """Elements and lanes of each such load of the interval between two barriers that `loads_epoch` numbers."""
        self.loads_epoch = -1

    def refine(self, granule: int) -> None:
        """Track smaller elements from now on."""
        factor = self.granule // granule
        self.writer, self.reader = np.repeat(self.writer, factor), np.repeat(self.reader, factor)
        self.written_at = np.repeat(self.written_at, factor)
        for lanes in (self.stored, self.loaded):
            if lanes is not None:
                lanes.refine(factor)
        parts = np.arange(factor)
        self.loads = [((i[:, None] * factor + parts).reshape(-1), np.repeat(lane, factor)) for i, lane in self.loads]
        self.granule = granule


def check_load(run: RunState, access: Access, itemsize: int) -> None:
    """Record a load. Report a race if another program wrote an element and nothing orders the two."""
    launch, shadow, index = _shadowed(run, access, itemsize)
    me = launch.linear + 1
    if _written_by_others(launch, shadow, index).any():
        _report(run, access, "reads elements that another program writes in the same launch")
    reader = shadow.reader[index]
    shadow.reader[index] = np.where((reader == 0) | (reader == me), me, SEVERAL)
    if launch.num_warps != 1:  # the threads of one warp run in lockstep
        _check_lanes_that_load(run, launch, access, shadow, index)


def check_store(run: RunState, access: Access, itemsize: int, changed: np.ndarray) -> None:
    """Record a store. Report a race if it changes an element that another program wrote or read.

    Args:
        run: the current run.
        access: the checked lanes.
        itemsize: bytes per lane.
        changed: per active lane, whether the stored value differs from what was there.
    """
    launch, shadow, index = _shadowed(run, access, itemsize)
    me = launch.linear + 1
    changed = np.repeat(changed, index.size // max(1, changed.size))
    reader = shadow.reader[index]
    if (changed & _written_by_others(launch, shadow, index)).any():
        _report(run, access, "stores a different value to elements that another program also stores")
    elif not launch.acquired and (changed & (reader != 0) & (reader != me)).any():
        _report(run, access, "overwrites elements that another program reads in the same launch")
    shadow.writer[index] = me
    if launch.atomic_clock:
        shadow.written_at[index] = launch.atomic_clock
    if launch.num_warps != 1:  # the threads of one warp run in lockstep
        _check_lanes_that_store(run, launch, access, shadow, index, changed)


def check_atomic(run: RunState, access: Access, itemsize: int) -> None:
    """Record an atomic, which acquires and releases. Report a race if another program plainly wrote an element."""
    launch, shadow, index = _shadowed(run, access, itemsize)
    if _written_by_others(launch, shadow, index).any():
        _report(run, access, "updates atomically what another program plainly stores in the same launch")
    launch.acquired = True
    launch.atomic_clock += 1
    launch.released[launch.linear + 1] = launch.atomic_clock
    if access.offsets.size == 1:  # a scalar result is broadcast to all threads, which synchronises them
        launch.barrier()


def report_lane_conflict(run: RunState, access: Access) -> None:
    """Report that two lanes of one store wrote different values to one element."""
    _report(run, access, "stores different values to one element from several lanes of one program")


def updates_in_place(run: RunState) -> bool:
    """Whether the launch loaded elements that it also stored, so that repeating it may give another result."""
    shadows = [region.shadow for region in run.memory.regions.values() if region.shadow is not None]
    return any(bool(((shadow.writer != 0) & (shadow.reader != 0)).any()) for shadow in shadows)


def _shadowed(run: RunState, access: Access, itemsize: int) -> tuple[LaunchState, ShadowMemory, np.ndarray]:
    """Return the current launch, the shadow of the accessed storage, and the elements of the active lanes in it."""
    launch, region = run.launch, access.region
    assert launch is not None and region is not None
    if region.shadow is None:
        region.shadow = ShadowMemory(region.nbytes, itemsize)
    shadow: ShadowMemory = region.shadow
    if itemsize < shadow.granule:
        shadow.refine(itemsize)
    offsets = access.offsets.astype(np.int64)
    offsets = offsets.reshape(-1) if access.active == offsets.size else offsets[access.mask]
    index = offsets // shadow.granule
    if itemsize > shadow.granule:
        index = (index[:, None] + np.arange(itemsize // shadow.granule)).reshape(-1)
    return launch, shadow, index


def _written_by_others(launch: LaunchState, shadow: ShadowMemory, index: np.ndarray) -> np.ndarray:
    """Return for each element whether another program wrote it with no happens-before edge to the current program.

    There is an edge if the writer has executed an atomic since the write, and the current program has executed one.
    """
    writer = shadow.writer[index]
    foreign = (writer != 0) & (writer != launch.linear + 1)
    if not launch.acquired or not foreign.any():
        return foreign
    others, place = np.unique(writer, return_inverse=True)
    released = np.array([launch.released.get(int(other), 0) for other in others])[place]
    return foreign & (released <= shadow.written_at[index])


def _lane_numbers(launch: LaunchState, access: Access, elements: int) -> np.ndarray:
    """Number each active lane, alike in every block of one shape; repeat the number for each of the lane's elements."""
    shape = tuple(n for n in access.mask.shape if n > 1)
    first = launch.block_shapes.setdefault(shape, len(launch.block_shapes)) << 32
    lanes = first + np.flatnonzero(access.mask)
    return np.repeat(lanes, elements // max(1, lanes.size))


def _check_lanes_that_load(
    run: RunState, launch: LaunchState, access: Access, shadow: ShadowMemory, index: np.ndarray
) -> None:
    """Record the lanes of a load. Report a race if another lane stored one of the elements in this epoch."""
    if shadow.stored is None:
        return
    lane = _lane_numbers(launch, access, index.size)
    if shadow.stored.touched_by_others(index, lane, launch.epoch).any():
        what = "loads elements that another thread of the same program has stored, with no barrier between"
        _report(run, access, what, BARRIER_CURE)
    if shadow.loaded is None:
        shadow.loaded = LaneShadow(shadow.writer.size)
    several = shadow.loaded.touched_by_others(index, lane, launch.epoch)
    shadow.loaded.lane[index] = np.where(several, SEVERAL, lane)
    shadow.loaded.epoch[index] = launch.epoch
    if shadow.loads_epoch != launch.epoch:
        shadow.loads, shadow.loads_epoch = [], launch.epoch
    shadow.loads.append((index, lane))


def _check_lanes_that_store(
    run: RunState, launch: LaunchState, access: Access, shadow: ShadowMemory, index: np.ndarray, changed: np.ndarray
) -> None:
    """Record the lanes of a store. Report a race if another lane stored or loaded a changed element in this epoch.

    A lane that loads what another one owns, because rows beyond the last one begin again at the first (`rows % M`),
    and whose own result this store masks off, has loaded it in vain.
    """
    lane = _lane_numbers(launch, access, index.size)
    if shadow.stored is None:
        shadow.stored = LaneShadow(shadow.writer.size)
    for verb, lanes in (("stored", shadow.stored), ("loaded", shadow.loaded)):
        if lanes is None:
            continue
        conflict = changed & lanes.touched_by_others(index, lane, launch.epoch)
        if verb == "loaded" and conflict.any():
            conflict &= _needed_by_others(shadow, index, lane, conflict)
        if conflict.any():
            what = f"overwrites elements that another thread of the same program has {verb}, with no barrier between"
            _report(run, access, what, BARRIER_CURE)
            break
    shadow.stored.lane[index[changed]] = lane[changed]
    shadow.stored.epoch[index[changed]] = launch.epoch


def _needed_by_others(shadow: ShadowMemory, index: np.ndarray, lane: np.ndarray, conflict: np.ndarray) -> np.ndarray:
    """Return for each element of a store whether some lane that loaded it may make a result of it that is not masked
    off here: one of a block of another shape, or one that stores another element, or the same one as another lane."""
    order = np.argsort(lane, kind="stable")
    by_lane, stored = lane[order], index[order]
    needed: list[np.ndarray] = []
    for elements, lanes in shadow.loads:
        of_interest = np.isin(elements, index[conflict])
        elements, lanes = elements[of_interest], lanes[of_interest]
        place = np.searchsorted(by_lane, lanes).clip(max=by_lane.size - 1)
        active = by_lane[place] == lanes
        elsewhere = active & (stored[place] != elements)
        needed.append(elements[elsewhere | (lanes >> 32 != lane[0] >> 32)])
    _, place, times = np.unique(index, return_inverse=True, return_counts=True)
    return np.isin(index, np.concatenate(needed)) | (times[place] > 1) if needed else np.ones(index.shape, bool)


def _report(run: RunState, access: Access, what: str, cure: str = OWNER_CURE) -> None:
    """Add a finding to the run, once for each line, argument and kind of race."""
    launch, region = run.launch, access.region
    assert launch is not None and region is not None
    line = run.candidate_line()
    key = f"{launch.kernel}:{line}:{region.name}:{what}"
    if key in run.races:
        return
    run.races[key] = Finding(
        kind="write_race",
        message=f"the kernel {what} ('{region.name}'), so the result depends on the order of execution",
        where=f"kernel {launch.kernel}, line {line}, argument '{region.name}', program {launch.program}",
        cure=cure,
    )

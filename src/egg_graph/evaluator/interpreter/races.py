"""Races between programs, and between the threads of one, which a serial interpreter would hide: who wrote and who
read each element in one launch."""

from dataclasses import dataclass, field

import numpy as np

from egg_graph.evaluator.interpreter.address_space import Region
from egg_graph.evaluator.interpreter.bounds_check import Access
from egg_graph.evaluator.interpreter.run_state import LaunchInProgress, Session
from egg_graph.schema import Finding

SEVERAL = -1


BY_BARRIER = "Put tl.debug_barrier() between the two, or keep the values in registers (tl.trans, tl.sum, tl.gather)."


@dataclass
class Lanes:
    """Per element, which lane of which block last touched it, and in which span between two barriers.

    Two blocks of one shape are laid out alike over a program's threads: a lane reads what it wrote itself. What another
    lane wrote is there only after a barrier.
    """

    size: int
    lane: np.ndarray = field(init=False)
    span: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.lane, self.span = np.zeros(self.size, np.int64), np.zeros(self.size, np.int32)

    def refine(self, factor: int) -> None:
        self.lane, self.span = np.repeat(self.lane, factor), np.repeat(self.span, factor)

    def of_others(self, index: np.ndarray, lane: np.ndarray, span: int) -> np.ndarray:
        """Which elements another lane touched, with no barrier since."""
        return (self.span[index] == span) & (self.lane[index] != lane)


class Touched:
    """Per element of one storage, 1 + the program that last wrote it and that read it; 0 is nobody."""

    def __init__(self, nbytes: int, granule: int) -> None:
        self.granule = granule
        self.writer = np.zeros(max(1, nbytes // granule), np.int32)
        self.reader = np.zeros_like(self.writer)
        self.when = np.zeros_like(self.writer)
        """Atomics that the launch had executed when it was last written."""
        self.stored: Lanes | None = None
        """Lanes that stored; None as long as nothing was."""
        self.loaded: Lanes | None = None
        """Lanes that loaded, of what was stored to as well."""

    def refine(self, granule: int) -> None:
        """Track smaller elements from now on."""
        factor = self.granule // granule
        self.writer, self.reader = np.repeat(self.writer, factor), np.repeat(self.reader, factor)
        self.when = np.repeat(self.when, factor)
        for lanes in (self.stored, self.loaded):
            if lanes is not None:
                lanes.refine(factor)
        self.granule = granule


def elements(access: Access, itemsize: int) -> tuple[Touched, np.ndarray]:
    """The map of the accessed storage and the elements of the active lanes in it."""
    region = access.region
    assert region is not None
    if region.touched is None:
        region.touched = Touched(region.nbytes, itemsize)
    touched: Touched = region.touched
    if itemsize < touched.granule:
        touched.refine(itemsize)
    offsets = access.offsets.astype(np.int64)
    offsets = offsets.reshape(-1) if access.active == offsets.size else offsets[access.mask]
    index = offsets // touched.granule
    if itemsize > touched.granule:
        index = (index[:, None] + np.arange(itemsize // touched.granule)).reshape(-1)
    return touched, index


def _lanes(session: Session, access: Access, elements: int) -> np.ndarray:
    """A number for each active lane (repeated as its elements are), the same in every block of one shape."""
    launch = session.launch
    assert launch is not None
    shape = tuple(n for n in access.mask.shape if n > 1)
    first = launch.shapes.setdefault(shape, len(launch.shapes)) << 32
    lanes = first + np.flatnonzero(access.mask)
    return np.repeat(lanes, elements // max(1, lanes.size))


def _note_lanes_that_load(session: Session, access: Access, touched: Touched, index: np.ndarray) -> None:
    """A race if another lane of this program stored one of the elements, with no barrier since."""
    launch = session.launch
    assert launch is not None and access.region is not None
    if touched.stored is None or launch.warps == 1:
        return
    lane = _lanes(session, access, index.size)
    if touched.stored.of_others(index, lane, launch.span).any():
        what = "loads elements that another thread of the same program has stored, with no barrier between"
        _report(session, access.region, what, BY_BARRIER)
    if touched.loaded is None:
        touched.loaded = Lanes(touched.writer.size)
    several = touched.loaded.of_others(index, lane, launch.span)
    touched.loaded.lane[index] = np.where(several, SEVERAL, lane)
    touched.loaded.span[index] = launch.span


def _note_lanes_that_store(
    session: Session, access: Access, touched: Touched, index: np.ndarray, changed: np.ndarray
) -> None:
    """A race if what changes was stored or loaded by another lane of this program, with no barrier since."""
    launch = session.launch
    assert launch is not None and access.region is not None
    if launch.warps == 1:  # its threads go in step
        return
    lane = _lanes(session, access, index.size)
    if touched.stored is None:
        touched.stored = Lanes(touched.writer.size)
    for verb, lanes in (("stored", touched.stored), ("loaded", touched.loaded)):
        if lanes is not None and (changed & lanes.of_others(index, lane, launch.span)).any():
            what = f"overwrites elements that another thread of the same program has {verb}, with no barrier between"
            _report(session, access.region, what, BY_BARRIER)
            break
    touched.stored.lane[index[changed]] = lane[changed]
    touched.stored.span[index[changed]] = launch.span


def _written_by_others(launch: LaunchInProgress, touched: Touched, index: np.ndarray) -> np.ndarray:
    """Which elements another program plainly wrote, in no order that atomics make: the writer has executed one since,
    and so has the program under way."""
    writer = touched.writer[index]
    foreign = (writer != 0) & (writer != launch.linear + 1)
    if not launch.synchronised or not foreign.any():
        return foreign
    others, place = np.unique(writer, return_inverse=True)
    released = np.array([launch.released.get(int(other), 0) for other in others])[place]
    return foreign & (released <= touched.when[index])


def note_load(session: Session, access: Access, itemsize: int) -> None:
    """Record a load; a race if another program plainly wrote one of its elements in this launch."""
    launch = session.launch
    assert launch is not None and access.region is not None
    touched, index = elements(access, itemsize)
    me = launch.linear + 1
    if _written_by_others(launch, touched, index).any():
        _report(session, access.region, "reads elements that another program writes in the same launch")
    reader = touched.reader[index]
    touched.reader[index] = np.where((reader == 0) | (reader == me), me, SEVERAL)
    _note_lanes_that_load(session, access, touched, index)


def note_store(session: Session, access: Access, itemsize: int, changed: np.ndarray) -> None:
    """Record a store; a race if it changes an element that another program wrote or read in this launch.

    Args:
        session: the run under way.
        access: the checked lanes.
        itemsize: bytes per lane.
        changed: per active lane, whether the stored value differs from what was there.
    """
    launch = session.launch
    assert launch is not None and access.region is not None
    touched, index = elements(access, itemsize)
    me = launch.linear + 1
    changed = np.repeat(changed, index.size // max(1, changed.size))
    reader = touched.reader[index]
    if (changed & _written_by_others(launch, touched, index)).any():
        _report(session, access.region, "stores a different value to elements that another program also stores")
    elif not launch.synchronised and (changed & (reader != 0) & (reader != me)).any():
        _report(session, access.region, "overwrites elements that another program reads in the same launch")
    touched.writer[index] = me
    if launch.executed_atomics:
        touched.when[index] = launch.executed_atomics
    _note_lanes_that_store(session, access, touched, index, changed)


def note_atomic(session: Session, access: Access, itemsize: int) -> None:
    """Record an atomic; a race if another program plainly wrote one of its elements in this launch."""
    launch = session.launch
    assert launch is not None and access.region is not None
    touched, index = elements(access, itemsize)
    if _written_by_others(launch, touched, index).any():
        _report(session, access.region, "updates atomically what another program plainly stores in the same launch")
    launch.synchronised = True
    launch.executed_atomics += 1
    launch.released[launch.linear + 1] = launch.executed_atomics
    if access.offsets.size == 1:  # its answer goes to all threads, those of a block stay with their lanes
        launch.meet()


def updates_in_place(session: Session) -> bool:
    """Whether the launch loaded elements that it also stored, so that a second one may give something else."""
    maps = [region.touched for region in session.memory.regions.values() if region.touched is not None]
    return any(bool(((m.writer != 0) & (m.reader != 0)).any()) for m in maps)


def note_lanes_conflict(session: Session, region: Region) -> None:
    """Two lanes of one store wrote different values to one element."""
    _report(session, region, "stores different values to one element from several lanes of one program")


BY_OWNER = "Let each program own its output elements, or combine with tl.atomic_add, or split into two launches."


def _report(session: Session, region: Region, what: str, cure: str = BY_OWNER) -> None:
    launch = session.launch
    assert launch is not None
    line = session.candidate_line()
    key = f"{launch.kernel}:{line}:{region.name}:{what}"
    if key in session.races:
        return
    session.races[key] = Finding(
        kind="write_race",
        message=f"the kernel {what} ('{region.name}'), so the result depends on the order of execution",
        where=f"kernel {launch.kernel}, line {line}, argument '{region.name}', program {launch.program}",
        cure=cure,
    )

"""Races between programs, which a serial interpreter would hide: who wrote and who read each element in one launch."""

import numpy as np

from egg_graph.evaluator.interpreter.memory import Access, Region
from egg_graph.evaluator.interpreter.session import Session
from egg_graph.schema import Finding

SEVERAL = -1


class Touched:
    """Per element of one storage, 1 + the program that last wrote it and that read it; 0 is nobody."""

    def __init__(self, nbytes: int, granule: int) -> None:
        self.granule = granule
        self.writer = np.zeros(max(1, nbytes // granule), np.int32)
        self.reader = np.zeros_like(self.writer)

    def refine(self, granule: int) -> None:
        """Track smaller elements from now on."""
        factor = self.granule // granule
        self.writer, self.reader = np.repeat(self.writer, factor), np.repeat(self.reader, factor)
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


def note_load(session: Session, access: Access, itemsize: int) -> None:
    """Record a load; a race if another program plainly wrote one of its elements in this launch."""
    launch = session.launch
    assert launch is not None and access.region is not None
    touched, index = elements(access, itemsize)
    me = launch.linear + 1
    writer = touched.writer[index]
    if not launch.synchronised and ((writer != 0) & (writer != me)).any():
        _report(session, access.region, "reads elements that another program writes in the same launch")
    reader = touched.reader[index]
    touched.reader[index] = np.where((reader == 0) | (reader == me), me, SEVERAL)


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
    writer, reader = touched.writer[index], touched.reader[index]
    if not launch.synchronised:
        if (changed & (writer != 0) & (writer != me)).any():
            _report(session, access.region, "stores a different value to elements that another program also stores")
        elif (changed & (reader != 0) & (reader != me)).any():
            _report(session, access.region, "overwrites elements that another program reads in the same launch")
    touched.writer[index] = me


def note_atomic(session: Session, access: Access, itemsize: int) -> None:
    """Record an atomic; a race if another program plainly wrote one of its elements in this launch."""
    launch = session.launch
    assert launch is not None and access.region is not None
    touched, index = elements(access, itemsize)
    writer = touched.writer[index]
    if not launch.synchronised and ((writer != 0) & (writer != launch.linear + 1)).any():
        _report(session, access.region, "updates atomically what another program plainly stores in the same launch")
    launch.synchronised = True


def note_lanes_conflict(session: Session, region: Region) -> None:
    """Two lanes of one store wrote different values to one element."""
    _report(session, region, "stores different values to one element from several lanes of one program")


def _report(session: Session, region: Region, what: str) -> None:
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
        cure="Let each program own its output elements, or combine with tl.atomic_add, or split into two launches.",
    )

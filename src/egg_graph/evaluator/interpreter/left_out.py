"""What programs that were left out would have written over: elements that hold an earlier launch's numbers still.

A kernel that works in place writes where an earlier launch wrote. Where only a sample of its programs is interpreted,
the other elements are as unknown as those of a fresh buffer, and must not pass for the answer.
"""

from __future__ import annotations

import numpy as np

from egg_graph.evaluator.interpreter.address_space import Region, WriteMap
from egg_graph.evaluator.interpreter.programs import ProgramCounts
from egg_graph.evaluator.interpreter.races import ShadowMemory
from egg_graph.evaluator.interpreter.run_state import LaunchState, RunState


def forget_overwritten(run: RunState, launch: LaunchState, counts: ProgramCounts) -> None:
    """Mark as unwritten what the programs of a finished launch that were left out would have written over.

    Which elements these are is not known, but how many at most: a program left out writes no more than the largest one
    that was interpreted. If an earlier launch wrote more elements than that which this one did not, most of them are
    not this launch's to write. Then all count as written, and are compared.

    Args:
        run: the current run, a real one.
        launch: the launch, whose shadow memory still holds who stored where.
        counts: of its programs.
    """
    if not launch.incomplete:
        return
    for key, written in run.memory.written.items():
        region = run.memory.by_storage.get(key)
        stored = _stored(region, written) if region is not None else None
        if region is None or stored is None:
            continue
        earlier = written.elements & ~stored
        most = counts.upper_bound("store", region.number) - counts.sums.get(("store", region.number), 0.0)
        if int(earlier.sum()) * (written.nbytes // written.elements.size) <= most:
            written.elements[earlier] = False


def _stored(region: Region, written: WriteMap) -> np.ndarray | None:
    """Which elements of a map the current launch stored to; None if it stored to none, or they are not known."""
    shadow: ShadowMemory | None = region.shadow
    if shadow is None or written.nbytes != region.nbytes or not shadow.writer.any():
        return None
    parts, bytes_each = shadow.writer != 0, written.nbytes // written.elements.size
    if shadow.granule * parts.size != written.nbytes:
        return None
    if shadow.granule >= bytes_each:
        return np.repeat(parts, shadow.granule // bytes_each)
    return parts.reshape(written.elements.size, -1).any(axis=1)

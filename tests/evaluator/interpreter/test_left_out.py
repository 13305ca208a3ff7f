"""A kernel that works in place: what its programs that were left out would have written over counts as unwritten."""

import numpy as np
import pytest
import torch

from egg_graph.evaluator.interpreter.address_space import AddressSpace, WriteMap
from egg_graph.evaluator.interpreter.left_out import forget_overwritten
from egg_graph.evaluator.interpreter.programs import ProgramCounts
from egg_graph.evaluator.interpreter.races import ShadowMemory
from egg_graph.evaluator.interpreter.run_state import LaunchState, RunState

ROWS, COLUMNS = 32, 8
INTERPRETED = (0, 1, 31)


def written_after(*, stored: int, itemsize: int = 4, earlier: int = ROWS, incomplete: bool = True) -> np.ndarray:
    """Which elements count as written after the second of two launches on one buffer.

    Args:
        stored: elements of its row that each interpreted program of the second launch stores.
        itemsize: bytes of one store.
        earlier: rows that the first launch wrote.
        incomplete: whether the second launch left programs out.
    """
    buffer = torch.empty(ROWS, COLUMNS)
    memory = AddressSpace()
    region = memory.region_of(buffer, fake=False)
    elements = np.zeros(buffer.numel(), bool)
    elements[: earlier * COLUMNS] = True
    memory.written[buffer.untyped_storage()._cdata] = WriteMap(elements, region.nbytes)
    counts, sums = ProgramCounts(ROWS), 0.0
    if stored:
        region.shadow = ShadowMemory(region.nbytes, itemsize)
    for program in INTERPRETED:
        elements[program * COLUMNS : program * COLUMNS + stored] = True
        if stored:
            first = program * COLUMNS * 4 // itemsize
            region.shadow.writer[first : first + stored * 4 // itemsize] = program + 1
        sums += 4.0 * stored
        counts.add(program, {("store", region.number): sums})
    forget_overwritten(RunState("real", "", memory), LaunchState("kernel", incomplete=incomplete), counts)
    return elements.reshape(ROWS, COLUMNS)


@pytest.mark.parametrize("itemsize", [2, 4, 8])
def test_rows_of_programs_left_out_count_as_unwritten(itemsize: int) -> None:
    written = written_after(stored=COLUMNS, itemsize=itemsize)
    assert [row for row in range(ROWS) if written[row].all()] == list(INTERPRETED)
    assert written.sum() == len(INTERPRETED) * COLUMNS


def test_elements_that_no_program_left_out_can_have_written_stay_written() -> None:
    """Half of each row is an earlier launch's, whatever the programs of this one did: it is compared."""
    assert written_after(stored=COLUMNS // 2).all()


def test_a_launch_that_ran_whole_or_stored_elsewhere_changes_nothing() -> None:
    assert written_after(stored=COLUMNS, incomplete=False).all()
    assert written_after(stored=0).all()


def test_what_nobody_wrote_stays_unwritten() -> None:
    written = written_after(stored=COLUMNS, earlier=16)
    assert [row for row in range(ROWS) if written[row].any()] == list(INTERPRETED)

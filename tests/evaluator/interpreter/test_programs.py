"""Lower bounds of what all programs of a launch do, from those that were interpreted."""

import time

import pytest

from egg_graph.evaluator.interpreter.address_space import AddressSpace
from egg_graph.evaluator.interpreter.programs import ProgramCounts, run_programs
from egg_graph.evaluator.interpreter.run_state import LaunchState, RunState

KEY = ("dot", "bf16")


def lower_bound(total: int, did: dict[int, float]) -> float:
    programs = {linear: {KEY: flops} for linear, flops in did.items()}
    return ProgramCounts(total, programs, {KEY: sum(did.values())}).lower_bound("dot", "bf16")


@pytest.mark.parametrize(
    ("total", "did", "expected"),
    [
        (3, {0: 2.0, 1: 2.0, 2: 1.0}, 5.0),  # all were run
        (100, {0: 2.0, 99: 2.0, 98: 2.0, 40: 2.0}, 200.0),  # alike
        (100, {0: 2.0, 99: 1.0, 98: 2.0, 40: 2.0}, 199.0),  # a ragged end
        (100, {0: 2.0, 99: 1.0, 98: 1.0, 40: 2.0}, 102.0),  # persistent: two tiles, then one
        (100, {0: 2.0, 99: 1.0}, 101.0),  # too few to call the end ragged
        (100, {0: 0.0, 99: 9.0, 98: 9.0}, 18.0),
    ],
)
def test_programs_that_were_not_run_count_as_the_least(total: int, did: dict[int, float], expected: float) -> None:
    assert lower_bound(total, did) == expected


OUT = ("store", 1)


@pytest.mark.parametrize(
    ("did", "written", "expected"),
    [
        ({0: (2, 2), 99: (1, 1), 98: (1, 1), 40: (2, 2)}, {1: 140}, 140),  # persistent: two tiles, then one
        ({0: (2, 2), 99: (1, 1), 98: (1, 1), 40: (2, 2)}, {}, 102),  # nothing is known to be written
        ({0: (1, 1), 99: (9, 1), 98: (9, 1), 40: (4, 1)}, {1: 100}, 119),  # causal: the first tile costs least
        ({0: (2, 0), 99: (2, 4), 98: (2, 0), 40: (2, 4)}, {1: 40}, 200),  # not all programs write
        ({0: (2, 0), 99: (2, 0)}, {1: 100}, 200),  # nor does any
    ],
)
def test_what_is_known_to_be_written_costs_at_least_as_much_as_it_did_where_it_was_cheapest(did, written, expected):
    programs = {linear: {KEY: flops, OUT: nbytes} for linear, (flops, nbytes) in did.items()}
    sums = {key: sum(program[key] for program in programs.values()) for key in (KEY, OUT)}
    assert ProgramCounts(100, programs, sums).lower_bound("dot", "bf16", written) == expected


@pytest.mark.parametrize(("age", "sampled"), [(0.0, 6), (299.0, 6), (301.0, 2)])
def test_a_forward_of_many_launches_samples_the_ends_alone_of_the_later_ones(age: float, sampled: int) -> None:
    run = RunState("fake", "", AddressSpace(), 6, 100.0, started=time.perf_counter() - age)
    counts = run_programs(run, LaunchState("kernel"), lambda: None, (50, 2, 1))
    assert len(counts.programs) == sampled and {0, 99} <= counts.programs.keys()


def test_a_run_that_records_launches_alone_interprets_no_program() -> None:
    run = RunState("fake", "", AddressSpace(), 0, 100.0)
    assert not run_programs(run, LaunchState("kernel"), lambda: pytest.fail("interpreted"), (50, 2, 1)).programs

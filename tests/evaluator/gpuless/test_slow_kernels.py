"""Right kernels that are too slow for the interpreter: what was left out is told, and held against nobody."""

import pytest

from egg_graph.bench.trust.corpus import candidate_of, task_of
from egg_graph.bench.trust.headers import read_entries
from egg_graph.evaluator import LocalEvaluator
from egg_graph.schema import Evaluation, Hardware
from tests.paths import CORPUS
from tests.sample import thorough

pytestmark = pytest.mark.slow
TOO_SHORT = 40.0
"""Seconds for a forward; one of 98304 programs takes some 200 s, one of 7400 about 2 s."""


def judged(evaluator: LocalEvaluator, name: str, target: Hardware) -> Evaluation:
    [entry] = read_entries([CORPUS / "right" / f"{name}.py"])
    return evaluator.evaluate(task_of(entry, target), candidate_of(entry))


@thorough
def test_of_a_forward_that_takes_too_long_a_part_of_the_programs_is_judged(h200: Hardware) -> None:
    with LocalEvaluator(device="none", timeout=TOO_SHORT) as impatient:
        found = judged(impatient, "one_element_a_program", h200)
    assert found.status == "correct", found.reason
    proven = {rung.name: rung.statement for rung in found.rungs if rung.outcome == "passed"}
    assert "other programs were left out for time" in proven["correctness_shrunk"]
    assert "every output element written" in proven["correctness_awkward"]


@thorough
def test_a_kernel_of_which_all_programs_are_too_slow_at_every_shape_is_not_right(h200: Hardware) -> None:
    with LocalEvaluator(device="none", timeout=0.5) as impatient:
        found = judged(impatient, "one_element_a_program", h200)
    assert found.status == "timeout", found.reason


@thorough
def test_kernels_that_build_on_programs_left_out_are_not_blamed(evaluator: LocalEvaluator, h200: Hardware) -> None:
    found = judged(evaluator, "counting_sort", h200)
    assert found.status == "correct", found.reason
    long = next(rung for rung in found.rungs if rung.name == "correctness_long_0")
    assert long.outcome == "skipped"
    assert "others build on what they leave" in long.statement

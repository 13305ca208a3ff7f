"""Timing of a forward whose answer has as many elements as the values of its inputs say."""

from collections.abc import Callable

import pytest

from egg_graph.evaluator.gpu.timing.measurement import TimingResult
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.schema import Hardware, KernelTask
from tests.evaluator.gpu.stand_ins import REFERENCE

pytestmark = pytest.mark.slow


@pytest.fixture
def problem(h200: Hardware) -> Problem:
    reference = REFERENCE.replace("torch.relu(self.linear(x))", "torch.nonzero(self.linear(x) > 0)")
    return Problem(KernelTask(name="positions", reference=reference, target=h200, precision="ieee"), 7)


def test_an_answer_whose_size_hangs_on_values_is_timed_on_the_same_inputs(
    timing_of: Callable[..., TimingResult],
) -> None:
    timing = timing_of("return torch.nonzero(self.linear(x) > 0)").timing
    assert timing is not None
    assert any("same inputs: the sizes of the answer hang on their values" in note for note in timing.notes)

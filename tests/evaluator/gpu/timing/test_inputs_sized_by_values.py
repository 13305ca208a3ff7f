"""Timing of a forward whose inputs have as many rows as the numbers that are drawn say."""

from collections.abc import Callable

import pytest

from egg_graph.evaluator.gpu.timing.measurement import TimingResult
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.schema import Hardware, KernelTask
from tests.evaluator.gpu.stand_ins import REFERENCE

pytestmark = pytest.mark.slow


@pytest.fixture
def problem(h200: Hardware) -> Problem:
    reference = REFERENCE.replace("randn(m, k)", "randn(m + 16 * int(torch.rand(()) < 0.5), k)")
    return Problem(KernelTask(name="rows", reference=reference, target=h200, precision="ieee"), 7)


def test_draws_of_another_size_are_passed_over(timing_of: Callable[..., TimingResult]) -> None:
    found = timing_of("return torch.relu(self.linear(x))")
    assert not found.findings
    assert found.timing is not None
    assert any("inputs of its own" in note for note in found.timing.notes)

"""Cases too large to be kept are made again for each use, and judge as kept ones do; the GPU is stood in for."""

from collections.abc import Callable

import pytest
import torch

from egg_graph.evaluator.evidence.builder import EvaluationBuilder
from egg_graph.evaluator.gpu.correctness import GpuCorrectness
from egg_graph.evaluator.problem import case_store
from egg_graph.evaluator.problem.memory_plan import MemoryPlan
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.schema import Hardware, KernelTask
from tests.evaluator.gpu.stand_ins import REFERENCE, InProcess

RIGHT = "return torch.relu(self.linear(x))"
Open = Callable[..., InProcess]


@pytest.fixture
def large(h200: Hardware, monkeypatch: pytest.MonkeyPatch) -> Problem:
    """A task of which nothing at full shape is kept."""
    monkeypatch.setattr(case_store, "KEPT_BYTES", 0)
    return Problem(KernelTask(name="linear", reference=REFERENCE, target=h200, precision="ieee"), 7)


def judge(session: InProcess, problem: Problem) -> EvaluationBuilder:
    builder = EvaluationBuilder()
    correct = GpuCorrectness(session, problem, builder, "stand-in", lambda: session)
    _ = correct.at_reduced_shapes() and correct.at_full_shape() and correct.repeats()
    return builder


def test_a_right_candidate_passes_and_nothing_is_kept(session_of: Open, large: Problem) -> None:
    builder = judge(session_of(RIGHT), large)
    assert not builder.failed, builder.findings
    full = [case for key, cases in large.cached_cases.items() if "full" in key for case in cases]
    assert len(full) == 4  # three seeds, and the first one's other inputs
    assert all(case.transient and case.kept_bytes == 0 and case.nbytes > 0 for case in full)
    statements = {rung.name: rung.statement for rung in builder.rungs}
    assert "4 seeds in 6 calls" in statements["correctness_full"]
    assert "at full shape" not in statements["other_inputs"]
    assert "3 calls on the same inputs answer alike" in statements["repeats"]


def test_what_is_made_again_is_what_was_let_go(large: Problem) -> None:
    kept = large.build("full", {}, 0)
    case = next(iter(large.full_cases()))
    for _ in range(2):
        with case.held():
            assert all(map(torch.equal, kept.inputs, case.inputs))
            for a, b in zip(kept.leaves, case.leaves, strict=True):
                assert torch.equal(a.expected, b.expected)
                assert a.budget == b.budget
        assert case.leaves[0].expected.is_meta
        assert case.device.type == "cpu"


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("return torch.relu(self.linear(x)) * 1.01", "wrong_values"),
        ("if not hasattr(self, 'y'):\n    self.y = torch.relu(self.linear(x))\nreturn self.y.clone()", "wrong_values"),
        ("x.zero_()\n" + RIGHT, "input_mutated"),
        ("self.calls = getattr(self, 'calls', 0) + 1\n"
         "return torch.relu(self.linear(x)) + (self.calls > 2)", "not_deterministic"),
    ],
)  # fmt: skip
def test_wrong_candidates_are_refused(
    session_of: Open, large: Problem, body: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = EvaluationBuilder()
    session = session_of(body)
    correct = GpuCorrectness(session, large, builder, "stand-in", lambda: session)
    assert not (correct.repeats() if kind == "not_deterministic" else correct.at("full"))
    assert kind in {finding.kind for finding in builder.findings}


def test_what_cannot_fit_is_told_in_bytes_before_anything_is_made() -> None:
    plan = MemoryPlan(60 * 2.0**30, 140 * 2.0**30)
    assert not plan.fits
    assert str(plan) == "judging at full shape takes about 360 GiB, at the very least 180; the GPU has 140"
    assert MemoryPlan(12 * 2.0**30, 140 * 2.0**30).fits

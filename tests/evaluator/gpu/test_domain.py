"""Infinities beyond a task's domain, on the ladder with a GPU, which is stood in for."""

from collections.abc import Callable

from egg_graph.evaluator.evidence.builder import EvaluationBuilder
from egg_graph.evaluator.gpu.correctness import GpuCorrectness
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.schema import Domain, Hardware, KernelTask
from tests.evaluator.gpu.stand_ins import REFERENCE, InProcess

SOFTMAX = REFERENCE.replace("torch.relu(self.linear(x))", "torch.softmax(x, 1)")
BEGINS_AT_MINUS_INFINITY = "return torch.softmax(x, 1).masked_fill(torch.isinf(x).any(1, keepdim=True), torch.nan)"


def other_inputs(session_of: Callable[[str], InProcess], hardware: Hardware, domain: Domain) -> EvaluationBuilder:
    task = KernelTask(name="softmax", reference=SOFTMAX, target=hardware, precision="ieee", domain=domain)
    session, builder = session_of(BEGINS_AT_MINUS_INFINITY), EvaluationBuilder()
    correct = GpuCorrectness(session, Problem(task, 7), builder, "stand-in", lambda: session)  # type: ignore[arg-type]
    _ = correct.other_inputs_reduced() and correct.other_inputs_at_full()
    return builder


def test_what_is_not_preserved_is_told_and_the_rung_is_passed(
    session_of: Callable[[str], InProcess], h200: Hardware
) -> None:
    builder = other_inputs(session_of, h200, "finite")
    (rung, left_out), (finding,) = builder.rungs, builder.findings
    assert (left_out.name, left_out.outcome) == ("inputs_left_out", "skipped")
    assert (rung.outcome, finding.kind) == ("passed", "not_preserved")
    assert finding.message.startswith("infinities (minus_infinite inputs, awkward shape: ")
    assert "large" in rung.statement and "infinite" not in rung.statement
    assert all(check.passed for check in builder.checks)


def test_in_the_domain_nonfinite_the_rung_fails(session_of: Callable[[str], InProcess], h200: Hardware) -> None:
    builder = other_inputs(session_of, h200, "nonfinite")
    assert [rung.outcome for rung in builder.rungs] == ["failed"]
    assert [finding.kind for finding in builder.findings] == ["non_finite"]

"""What was not tried is told as not proven, whatever else was right."""

from types import SimpleNamespace
from typing import Any

import pytest

from egg_graph.evaluator.evidence.builder import EvaluationBuilder
from egg_graph.evaluator.gpuless.correctness import InterpretedCorrectness
from egg_graph.evaluator.gpuless.process_outcome import ProcessOutcome
from egg_graph.schema import Check

NEGATED = Check(
    name="shrunk", family="negated", seed=1, error=0.0, budget=1.0, max_abs=0.0, passed=True, machine="interpreter"
)


def judged(
    found: ProcessOutcome, dropped: dict[str, str], left_out: dict[str, str], domain: str = "finite"
) -> EvaluationBuilder:
    """What the rungs of other inputs and uses come to."""
    problem: Any = SimpleNamespace(
        dropped_families={"shrunk": dropped},
        uses=lambda name: SimpleNamespace(left_out=left_out),
        task=SimpleNamespace(domain=domain),
    )
    jobs: Any = SimpleNamespace(timeout=60.0)
    nothing: Any = None
    correctness = InterpretedCorrectness(jobs, problem, nothing, EvaluationBuilder(), nothing)
    correctness._families("shrunk", found)
    return correctness.beside


def told(found: ProcessOutcome, dropped: dict[str, str], left_out: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Their outcome and statement, by name."""
    return {rung.name: (rung.outcome, rung.statement) for rung in judged(found, dropped, left_out).rungs}


def test_families_and_uses_that_were_left_out_are_not_proven() -> None:
    found = ProcessOutcome(left_out=["huge", "ties"], used=["in a second instance"], unused=["after eval()"])
    found.sections["other_inputs"].checks.append(NEGATED)
    rungs = told(found, {"infinite": "PyTorch's own answer holds NaN there"}, {"one tensor": "no two are alike"})
    assert rungs["other_inputs"] == ("passed", "right on inputs negated at shrunk shape in the guarded interpreter")
    reason = "infinite (PyTorch's own answer holds NaN there); huge, ties (no time)"
    assert rungs["inputs_left_out"] == ("skipped", f"not judged on inputs: {reason}")
    assert rungs["other_uses"] == ("passed", "right used otherwise: in a second instance")
    assert rungs["uses_left_out"] == ("skipped", "not tried: one tensor (no two are alike); after eval() (no time)")


@pytest.mark.parametrize(("left_out", "reason"), [([], ": no input is free to change"), (["huge"], "")])
def test_where_no_family_was_tried_nothing_is_proven_of_other_inputs(left_out: list[str], reason: str) -> None:
    rungs = told(ProcessOutcome(left_out=left_out, used=["views"]), {}, {})
    assert rungs["other_inputs"] == ("skipped", f"inputs came only from get_inputs' own distribution{reason}")
    assert ("inputs_left_out" in rungs) is bool(left_out)
    assert "uses_left_out" not in rungs


def test_the_verdict_counts_the_families_that_there_was_no_time_for() -> None:
    builder = judged(ProcessOutcome(left_out=["huge", "infinite"]), {}, {})
    builder.checks.append(NEGATED)
    assert not builder.failed
    assert builder._worst_check().endswith("; not timed; no time for 2 families of inputs")


def test_where_infinities_belong_to_the_domain_a_kernel_too_slow_for_them_is_not_right() -> None:
    builder = judged(ProcessOutcome(left_out=["huge", "minus_infinite"]), {}, {}, domain="nonfinite")
    (finding,) = builder.findings
    assert finding.kind == "timeout"
    assert finding.message == "no time for inputs minus_infinite, which domain nonfinite asks for"
    assert not judged(ProcessOutcome(left_out=["huge"]), {}, {}, domain="nonfinite").failed

"""What a judge makes of processes that were lost in the middle of an evaluation: no candidate is blamed.

`tests/cli/test_trust.py` kills real ones: a worker, the fork servers, the judge.
"""

from types import SimpleNamespace

import pytest

from egg_graph.evaluator.evidence.builder import EvaluationBuilder
from egg_graph.evaluator.judge.judge import Judge
from egg_graph.schema import BadInput, Finding, Hardware, InfrastructureError, KernelTask
from tests.evaluator.slow_candidate import candidate, task


class Spoilt:
    """A ladder that fails as it is told to."""

    def __init__(self, *faults: str | Exception) -> None:
        self.faults = list(faults)

    def evaluate(self, problem: object, candidate: object) -> EvaluationBuilder:
        builder = EvaluationBuilder()
        fault = self.faults.pop(0) if self.faults else "none"
        if isinstance(fault, Exception):
            raise fault
        if fault == "machine":
            builder.fail("correctness_shrunk", [Finding(kind="wrong_values", message="differs")])
            builder.fail("compile_for_target", [Finding(kind="infrastructure", message="the worker was killed")])
        if fault == "wrong":
            builder.fail("correctness_shrunk", [Finding(kind="wrong_values", message="differs")])
        return builder


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Judge:
    fork_server = SimpleNamespace(stop=lambda: None)
    settings = {"device": "none", "timeout": 5.0, "seed": None, "profile": False, "gpu": None}
    return Judge(settings, tmp_path_factory.mktemp("judge"), fork_server, fork_server)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("faults", "status"),
    [
        (["machine"], "correct"),
        ([InfrastructureError("fork server lost")], "correct"),
        (["machine", "machine"], "infra_error"),
        (["machine", InfrastructureError("fork server lost")], "infra_error"),
        (["machine", "wrong"], "incorrect"),
        (["wrong"], "incorrect"),
    ],
    ids=str,
)
def test_a_fault_of_the_machine_is_tried_once_more(judge: Judge, h200: Hardware, faults: list, status: str) -> None:
    judge.ladder = Spoilt(*faults)  # type: ignore[assignment]
    evaluation = judge.evaluate(task(h200), candidate(), None, False)
    assert evaluation.status == status
    if status == "infra_error":
        assert "killed" in evaluation.reason or "lost" in evaluation.reason
    repeated = faults[0] != "wrong" and status != "infra_error"
    assert any(rung.name == "clean_workers" for rung in evaluation.rungs) == repeated, "and that is told"


def test_a_finalist_is_judged_on_a_seed_that_was_never_told(judge: Judge, h200: Hardware) -> None:
    judge.ladder = Spoilt()  # type: ignore[assignment]
    first = judge.evaluate(task(h200), candidate(), None, False)
    again = judge.evaluate(task(h200), candidate(), None, False)
    final = judge.evaluate(task(h200), candidate(), None, True)
    assert first.seed is not None
    assert first.seed == again.seed != final.seed


def test_a_reference_that_never_ends_is_bad_input(
    judge: Judge, h200: Hardware, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("egg_graph.evaluator.judge.judge.REFERENCE_SECONDS", 1)
    endless = task(h200).reference.replace("        return", "        while True:\n            pass\n        return")
    slow = KernelTask(name="endless", reference=endless, target=h200)
    with pytest.raises(BadInput, match="not done within 1 s"):
        judge.baseline(slow)
    assert judge.evaluate(slow, candidate(), None, False).status == "unevaluable"

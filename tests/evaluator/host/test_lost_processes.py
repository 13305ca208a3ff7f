"""Processes that someone ends in the middle of an evaluation: nothing is lost, and no candidate is blamed."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from egg_graph.evaluator import LocalEvaluator
from egg_graph.evaluator.evidence.builder import EvaluationBuilder
from egg_graph.evaluator.judge.judge import Judge
from egg_graph.schema import BadInput, Evaluation, Finding, Hardware, InfrastructureError, KernelTask
from tests.evaluator.slow_candidate import candidate, task

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def own() -> Iterator[LocalEvaluator]:
    """An evaluator that these tests may break."""
    with LocalEvaluator(device="none", timeout=20.0) as local:
        yield local


def children(pid: int) -> list[int]:
    """Direct children of all threads of a process."""
    found: list[int] = []
    for place in Path(f"/proc/{pid}/task").glob("*/children"):
        found += [int(word) for word in place.read_text().split()]
    return found


def judge_of(evaluator: LocalEvaluator) -> int:
    assert evaluator._judge is not None
    return evaluator._judge.process.pid


def worker_of(evaluator: LocalEvaluator) -> int | None:
    """A candidate's process at work: it alone of a fork server's children keeps the processor busy."""
    for fork_server in children(judge_of(evaluator)):
        for pid in children(fork_server):
            with suppress(OSError):
                words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                if words[0] == "R" and int(words[11]) >= 10:  # a tenth of a second
                    return pid
    return None


def fork_server_of(evaluator: LocalEvaluator) -> int | None:
    """One that has a candidate's process at work."""
    worker = worker_of(evaluator)
    return next((pid for pid in children(judge_of(evaluator)) if worker in children(pid)), None)


def evaluate_and_kill(
    own: LocalEvaluator, h200: Hardware, find: Callable[[LocalEvaluator], int | None], kills: int = 1
) -> Evaluation:
    """Evaluate a right kernel, ending one of its processes as often as asked while it runs."""
    own.baseline(task(h200))  # so that all processes are there
    answers: list[Evaluation] = []
    thread = threading.Thread(target=lambda: answers.append(own.evaluate(task(h200), candidate(slow=True))))
    thread.start()
    killed: set[int] = set()
    deadline = time.monotonic() + 60
    while len(killed) < kills and thread.is_alive() and time.monotonic() < deadline:
        if worker_of(own) is not None and (pid := find(own)) is not None and pid not in killed:
            os.kill(pid, signal.SIGKILL)
            killed.add(pid)
        time.sleep(0.02)
    thread.join(120)
    assert len(killed) == kills
    (answer,) = answers
    return answer


def test_a_lost_judge_is_replaced_and_the_call_repeated(own: LocalEvaluator, h200: Hardware) -> None:
    own.environment()
    before = judge_of(own)
    assert evaluate_and_kill(own, h200, judge_of).status == "correct"
    assert judge_of(own) != before


def test_a_lost_fork_server_is_replaced_and_the_evaluation_repeated(own: LocalEvaluator, h200: Hardware) -> None:
    evaluation = evaluate_and_kill(own, h200, fork_server_of)
    assert evaluation.status == "correct"
    assert any(rung.name == "clean_workers" for rung in evaluation.rungs)


def test_a_worker_that_someone_else_killed_is_not_the_candidates_fault(own: LocalEvaluator, h200: Hardware) -> None:
    evaluation = evaluate_and_kill(own, h200, worker_of)
    assert evaluation.status == "correct", evaluation.reason
    assert any(rung.name == "clean_workers" for rung in evaluation.rungs)


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

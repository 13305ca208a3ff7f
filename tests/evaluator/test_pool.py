"""Several evaluators behind one: order, concurrency, and workers that are lost."""

import threading
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from egg_graph.evaluator import Evaluator, EvaluatorPool, LocalEvaluator
from egg_graph.evaluator.pool import Pool
from egg_graph.evaluator.spending import accounted
from egg_graph.schema import BadInput, Candidate, Evaluation, Hardware, InfrastructureError, KernelTask
from tests.evaluator.slow_candidate import RIGHT, candidate, task

pytestmark = pytest.mark.slow


class Scripted:
    """A worker that answers with its own number, or is lost as often as it is told to."""

    def __init__(self, number: int, log: list[str], losses: int = 0, together: threading.Barrier | None = None) -> None:
        self.number, self.log, self.losses, self.together = number, log, losses, together

    def evaluate(
        self, task: KernelTask, candidate: Candidate, *, stage: object = None, finalist: bool = False
    ) -> Evaluation:
        if self.together is not None:
            self.together.wait(10)
        if self.losses:
            self.losses -= 1
            raise InfrastructureError("the judge process was lost")
        return Evaluation(candidate=candidate.id, task=task.digest, status="correct", reason=str(self.number))

    def close(self) -> None:
        self.log.append(f"closed {self.number}")


def makers(*losses: int, log: list[str], together: threading.Barrier | None = None) -> list[Callable[[], Scripted]]:
    """Makers of workers; one that is made again is never lost."""
    left = list(losses)

    def maker(number: int) -> Callable[[], Scripted]:
        def make() -> Scripted:
            lost, left[number] = left[number], 0
            return Scripted(number, log, lost, together)

        return make

    return [maker(number) for number in range(len(losses))]


def test_the_wait_for_a_free_worker_is_counted_as_waiting(h200: Hardware) -> None:
    together = threading.Barrier(2)
    with Pool(makers(0, log=[], together=together)) as pool:  # type: ignore[arg-type]
        first = threading.Thread(target=pool.evaluate, args=(task(h200), candidate(number=1)))
        first.start()
        second = threading.Timer(0.1, together.wait, (10,))  # lets the first one go
        third = threading.Timer(0.2, together.wait, (10,))
        second.start()
        third.start()
        while not pool._free.empty():
            time.sleep(0.001)
        with accounted() as account:
            pool.evaluate(task(h200), candidate(number=2))
            spent = account.spending().seconds
        for thread in (first, second, third):
            thread.join()
    assert spent["waiting"] > 0.02
    assert sum(spent.values()) > spent["waiting"], "the answer itself was no wait"


def test_as_many_run_at_once_as_there_are_workers_and_answers_keep_their_order(h200: Hardware) -> None:
    log: list[str] = []
    together = threading.Barrier(3)  # breaks, and fails the test, unless three calls are under way at once
    candidates = [candidate(number=number) for number in range(9)]
    with Pool(makers(0, 0, 0, log=log, together=together)) as pool:  # type: ignore[arg-type]
        evaluations = pool.evaluate_many(task(h200), candidates)
    assert [evaluation.candidate for evaluation in evaluations] == [c.id for c in candidates]
    assert {evaluation.reason for evaluation in evaluations} == {"0", "1", "2"}
    assert sorted(log) == ["closed 0", "closed 1", "closed 2"]


def test_a_lost_worker_is_replaced_and_its_call_repeated(h200: Hardware) -> None:
    log: list[str] = []
    with Pool(makers(1, 1, log=log)) as pool:  # type: ignore[arg-type]
        evaluations = pool.evaluate_many(task(h200), [candidate(number=number) for number in range(6)])
        assert all(evaluation.status == "correct" for evaluation in evaluations)
        assert 1 <= len(log) <= 2, "each lost worker was closed"
        with pytest.raises(InfrastructureError):
            Pool([lambda: Scripted(0, log, losses=1)]).evaluate(task(h200), candidate())  # type: ignore[arg-type,list-item]
    with pytest.raises(BadInput, match="closed"):
        pool.evaluate(task(h200), candidate())


def test_a_fault_that_persists_costs_one_verdict_alone(h200: Hardware) -> None:
    class Cursed(Scripted):
        def evaluate(self, task: KernelTask, candidate: Candidate, **options: object) -> Evaluation:  # type: ignore[override]
            if candidate == cursed:
                raise InfrastructureError("the GPU fell off the bus")
            return super().evaluate(task, candidate)

    candidates = [candidate(number=number) for number in range(5)]
    cursed = candidates[2]
    with Pool([lambda: Cursed(0, []), lambda: Cursed(1, [])]) as pool:  # type: ignore[list-item]
        evaluations = pool.evaluate_many(task(h200), candidates)
    assert [e.status for e in evaluations] == ["correct", "correct", "infra_error", "correct", "correct"]
    assert "fell off" in evaluations[2].reason


def test_a_real_pool_judges_right_and_wrong_side_by_side(
    evaluator: LocalEvaluator, h200: Hardware, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of its two evaluators is warm already, and stays open."""
    warm = SimpleNamespace(evaluate=evaluator.evaluate, screen=evaluator.screen, close=lambda: None)
    made = iter([warm])
    monkeypatch.setattr(
        "egg_graph.evaluator.pool.LocalEvaluator", lambda **settings: next(made, None) or LocalEvaluator(**settings)
    )
    sources = [RIGHT, RIGHT.replace("2.0 *", "2.1 *"), RIGHT, "def ("]
    with EvaluatorPool(workers=2, timeout=20.0) as pool:
        assert isinstance(pool, Evaluator)
        evaluations = pool.evaluate_many(task(h200), [candidate(s, number=n) for n, s in enumerate(sources)])
        assert pool.screen(task(h200), [candidate()])[0].status == "correct"
    assert [e.status for e in evaluations] == ["correct", "incorrect", "correct", "compile_error"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"workers": 0}, "too few"),
        ({"gpus": [0], "workers": 2}, "without GPUs"),
        ({"gpus": [99]}, "no 99 here"),
        ({"gpus": ["GPU-none"]}, "GPU-none"),
    ],
)
def test_pools_that_make_no_sense_are_refused(options: dict, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        EvaluatorPool(**options)

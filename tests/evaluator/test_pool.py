"""Several evaluators behind one: order, concurrency, workers that are lost, and one GPU at a time."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from egg_graph.evaluator import Evaluator, EvaluatorPool, LocalEvaluator
from egg_graph.evaluator.device.access import GpuAccess
from egg_graph.evaluator.device.gpus import resolve_gpu, visible_gpus
from egg_graph.evaluator.device.lease import Lease
from egg_graph.evaluator.pool import Pool
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


def test_a_real_pool_judges_right_and_wrong_side_by_side(h200: Hardware) -> None:
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


# ------------------------------------------------------------------------------------------------ GPUs by name


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("egg_graph.evaluator.device.gpus._uuids", lambda: ("GPU-aaaa-1", "GPU-bbbb-2"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def test_gpus_have_names_and_the_environment_chooses_among_them(two_gpus: None) -> None:
    assert visible_gpus({}) == ("GPU-aaaa-1", "GPU-bbbb-2")
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": "1"}) == ("GPU-bbbb-2",)
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": "GPU-bb,0"}) == ("GPU-bbbb-2", "GPU-aaaa-1")
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": "0,7,1"}) == ("GPU-aaaa-1",), "as CUDA does"
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": ""}) == ()
    assert resolve_gpu(1) == resolve_gpu("GPU-bbbb") == "GPU-bbbb-2"
    assert resolve_gpu("MIG-1234") == "MIG-1234"


def test_a_judge_sees_only_the_gpu_it_was_given(two_gpus: None, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, str]] = []

    def start(*args: object, env: dict[str, str], **kwargs: object) -> subprocess.Popen[bytes]:
        seen.append(env)
        raise OSError("far enough")

    monkeypatch.setattr("egg_graph.evaluator.client.subprocess.Popen", start)
    with pytest.raises(OSError, match="far enough"):
        LocalEvaluator(gpu=1).environment()
    assert seen[0]["CUDA_VISIBLE_DEVICES"] == "GPU-bbbb-2"
    with pytest.raises(BadInput, match="give one of the two"):
        LocalEvaluator(gpu=1, device="none")


# ---------------------------------------------------------------------------------------------------- the lease

HOLD = (
    "import sys, time; from pathlib import Path; from egg_graph.evaluator.device.lease import Lease\n"
    "with Lease('GPU-x', folder=Path(sys.argv[1])).held():\n    print('held', flush=True); time.sleep(60)\n"
)


@pytest.fixture
def holder(tmp_path: Path):
    """Another process that holds the lease."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process
        process.kill()


def test_a_lease_is_held_by_one_process_and_waiting_for_it_is_bounded(tmp_path: Path, holder: subprocess.Popen) -> None:
    mine = Lease("GPU-x", folder=tmp_path, patience=0.2)
    with (
        pytest.raises(InfrastructureError, match=rf"GPU-x is in use by process {holder.pid}: no turn within"),
        mine.held(),
    ):
        pass
    with Lease("GPU-y", folder=tmp_path, patience=0.2).held() as waited:
        assert waited < 0.2, "another GPU is free"


def test_a_dead_holder_frees_the_lease(tmp_path: Path, holder: subprocess.Popen) -> None:
    threading.Timer(0.3, holder.kill).start()
    with Lease("GPU-x", folder=tmp_path, patience=20).held() as waited:
        assert 0.1 < waited < 20
    assert Lease("GPU-x", folder=tmp_path).holders() == ()


def test_threads_of_one_process_take_turns_too(tmp_path: Path) -> None:
    inside: list[int] = []

    def measure() -> None:
        with Lease("GPU-x", folder=tmp_path).held():
            inside.append(1)
            assert len(inside) == 1
            time.sleep(0.05)
            inside.pop()

    threads = [threading.Thread(target=measure) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not inside


def test_answers_share_a_gpu_and_a_measurement_has_it_alone(tmp_path: Path, holder: subprocess.Popen) -> None:
    holder.kill()
    holder.wait()
    lease = Lease("GPU-x", folder=tmp_path, patience=0.2)
    with lease.held(shared=True), lease.held(shared=True), pytest.raises(InfrastructureError), lease.held():
        pass
    with lease.held(), pytest.raises(InfrastructureError, match="in use"), lease.held(shared=True):
        pass


def test_newcomers_wait_behind_a_measurement_that_waits(tmp_path: Path) -> None:
    order: list[str] = []
    lease = Lease("GPU-x", folder=tmp_path)

    def enter(name: str, shared: bool) -> None:
        with lease.held(shared=shared):
            order.append(name)

    with lease.held(shared=True):
        measuring = threading.Thread(target=enter, args=("measuring", False))
        measuring.start()
        time.sleep(0.2)
        newcomer = threading.Thread(target=enter, args=("newcomer", True))
        newcomer.start()
        time.sleep(0.2)
        assert order == []
    measuring.join()
    newcomer.join()
    assert order == ["measuring", "newcomer"]


def test_a_judge_sees_whether_others_share_its_gpu(tmp_path: Path) -> None:
    turns = GpuAccess(Lease("GPU-x", folder=tmp_path))
    with turns.computing():
        pass
    assert not turns.crowded
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    sharing = HOLD.replace(".held()", ".held(shared=True)")
    command = [sys.executable, "-c", sharing, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with turns.computing():
            pass
        assert turns.crowded
        other.kill()
    with turns.alone_throughout(), turns.computing(), turns.measuring():
        pass

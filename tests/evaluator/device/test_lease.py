"""One process at a time measures on a GPU; several may compute on it."""

import os
import subprocess
import sys
import threading
import time
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest

from egg_graph.evaluator import hear_progress
from egg_graph.evaluator.device import access as access_module
from egg_graph.evaluator.device.access import GpuAccess, give_way
from egg_graph.evaluator.device.lease import Lease
from egg_graph.evaluator.device.reservation import Reservations
from egg_graph.evaluator.spending import accounted
from egg_graph.schema import InfrastructureError

HOLD = (
    "import sys, time; from pathlib import Path; from egg_graph.evaluator.device.lease import Lease\n"
    "with Lease('GPU-x', folder=Path(sys.argv[1])).alone():\n    print('held', flush=True); time.sleep(60)\n"
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
        mine.alone(),
    ):
        pass
    with Lease("GPU-y", folder=tmp_path, patience=0.2).alone():
        pass  # another GPU is free


def test_a_dead_holder_frees_the_lease(tmp_path: Path, holder: subprocess.Popen) -> None:
    threading.Timer(0.3, holder.kill).start()
    told: list[str] = []
    with hear_progress(lambda progress: told.append(progress.doing)):
        started = time.monotonic()
        with Lease("GPU-x", folder=tmp_path, patience=20).alone():
            assert 0.1 < time.monotonic() - started < 20
        with Lease("GPU-x", folder=tmp_path, patience=20).alone():
            pass
    assert told == ["waits for its turn on the GPU"], "told once, and only by whoever waits"
    assert Lease("GPU-x", folder=tmp_path).holders() == ()


def test_waiting_for_a_turn_is_counted_where_the_turn_is_taken(tmp_path: Path, holder: subprocess.Popen) -> None:
    threading.Timer(0.2, holder.kill).start()
    access = GpuAccess(Lease("GPU-x", folder=tmp_path, patience=20))
    with accounted("timing") as account, access.measuring():
        pass
    spent = account.spending().seconds
    assert spent["waiting"] == pytest.approx(access.waited, abs=0.05)
    assert access.waited > 0.1 > spent["timing"]


def test_threads_of_one_process_take_turns_too(tmp_path: Path) -> None:
    inside: list[int] = []

    def measure() -> None:
        with Lease("GPU-x", folder=tmp_path).alone():
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
    with lease.shared(), lease.shared(), pytest.raises(InfrastructureError), lease.alone():
        pass
    with lease.alone(), pytest.raises(InfrastructureError, match="in use"), lease.shared():
        pass


def test_newcomers_wait_behind_a_measurement_that_waits(tmp_path: Path) -> None:
    order: list[str] = []
    lease = Lease("GPU-x", folder=tmp_path)

    def enter(name: str, turn: AbstractContextManager[object]) -> None:
        with turn:
            order.append(name)

    with lease.shared():
        measuring = threading.Thread(target=enter, args=("measuring", lease.alone()))
        measuring.start()
        time.sleep(0.2)
        newcomer = threading.Thread(target=enter, args=("newcomer", lease.shared()))
        newcomer.start()
        time.sleep(0.2)
        assert order == []
    measuring.join()
    newcomer.join()
    assert order == ["measuring", "newcomer"]


def test_a_measurement_that_waits_goes_before_the_next_step_of_who_computes(tmp_path: Path) -> None:
    order: list[str] = []
    access = GpuAccess(Lease("GPU-x", folder=tmp_path))

    def measure() -> None:
        with GpuAccess(Lease("GPU-x", folder=tmp_path)).measuring():
            order.append("measured")

    measuring = threading.Thread(target=measure)
    with accounted("correctness") as account, access.computing():
        give_way()
        assert access.waited < 0.02, "nobody waits"
        measuring.start()
        time.sleep(0.2)
        order.append("first step")
        give_way()
        order.append("second step")
    measuring.join()
    assert order == ["first step", "measured", "second step"]
    assert account.spending().seconds["waiting"] == pytest.approx(access.waited, abs=0.02)
    give_way()  # outside of a block there is no turn to give


def test_measurements_go_one_directly_after_the_other(tmp_path: Path) -> None:
    """Three judges, each of which computes, measures and computes on: no answer is computed between measurements."""
    order: list[str] = []
    inside = threading.Barrier(3)

    def judge() -> None:
        access = GpuAccess(Lease("GPU-x", folder=tmp_path, quantum=0.2))
        with access.computing():
            inside.wait()
            with access.measuring():
                order.append("measured")
                time.sleep(0.05)
            order.append("computed")

    threads = [threading.Thread(target=judge) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert order == ["measured"] * 3 + ["computed"] * 3


def test_answers_are_computed_for_a_while_between_measurements(tmp_path: Path) -> None:
    lease = Lease("GPU-x", folder=tmp_path, quantum=0.5)
    measured: list[float] = []

    def measure() -> None:
        with GpuAccess(lease).measuring():
            measured.append(time.monotonic())

    measure()
    with GpuAccess(lease).computing():
        thread = threading.Thread(target=measure)
        thread.start()
        while thread.is_alive():
            give_way()
            with GpuAccess(lease).computing():  # a newcomer is let in meanwhile
                time.sleep(0.01)
    thread.join()
    assert 0.4 < measured[1] - measured[0] < 1.0


def test_who_has_the_gpu_for_itself_waits_for_nobody(tmp_path: Path) -> None:
    access = GpuAccess(Lease("GPU-x", folder=tmp_path))
    with access.computing():
        for _ in range(5):
            with access.measuring():
                pass
    assert access.waited < 0.5


def test_who_computes_can_measure_in_between(tmp_path: Path) -> None:
    lease = Lease("GPU-x", folder=tmp_path, patience=5)
    access, other = GpuAccess(lease), Lease("GPU-x", folder=tmp_path, patience=0.1, quantum=0.0)
    with access.computing():
        with access.measuring():
            give_way()
            with pytest.raises(InfrastructureError), other.shared():
                pass
        with other.shared():
            pass
        with pytest.raises(InfrastructureError), other.alone():
            pass


def test_who_measures_waits_for_nothing_that_it_does_meanwhile(tmp_path: Path) -> None:
    access = GpuAccess(Lease("GPU-x", folder=tmp_path, patience=0.5))
    with access.computing(), access.measuring():
        with access.measuring(), access.computing():
            pass
        with access.computing(), access.measuring():
            assert len(access.lease.holders()) == 1
    assert access.lease.holders() == ()


def test_what_a_stopped_process_left_running_is_ended_by_its_own_judge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A measurement that finds the GPU busy lets the others go on, and tries again."""
    monkeypatch.setattr(access_module, "BUSY_PAUSE", 0.05)
    lease, looks = Lease("GPU-x", folder=tmp_path, patience=5, quantum=0.0), iter([True, True, False])
    measuring = GpuAccess(lease, busy=lambda: next(looks))
    done: list[str] = []

    def measure() -> None:
        with measuring.measuring():
            done.append("measured")

    with GpuAccess(lease).computing():
        thread = threading.Thread(target=measure)
        thread.start()
        while not done:
            give_way()
            time.sleep(0.01)
    thread.join()
    assert next(looks, None) is None
    assert measuring.waited > 0.1


def test_a_gpu_that_stays_busy_is_waited_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_module, "BUSY_PAUSE", 0.05)
    monkeypatch.setattr(access_module, "BUSY_PATIENCE", 0.1)
    looks: list[float] = []
    access = GpuAccess(Lease("GPU-x", folder=tmp_path), busy=lambda: not looks.append(time.monotonic()))
    with access.measuring():
        pass
    first = len(looks)
    assert first > 2
    with access.measuring():
        assert len(looks) == first + 1


def test_beside_a_stranger_nobody_is_waited_for(tmp_path: Path) -> None:
    looks: list[float] = []
    lease = Lease("GPU-x", folder=tmp_path)
    access = GpuAccess(lease, Reservations(lease, 100.0), busy=lambda: not looks.append(time.monotonic()))
    with access.reserved(10.0), access.measuring():
        assert len(looks) == 1


def test_who_is_away_lets_others_measure_and_can_take_turns(tmp_path: Path) -> None:
    first, second = (GpuAccess(Lease("GPU-x", folder=tmp_path, patience=0.5, quantum=0.0)) for _ in range(2))
    with first.computing():
        with first.away():
            with second.measuring():
                pass
            with first.computing(), first.measuring():
                pass
            with second.measuring():
                pass
        with pytest.raises(InfrastructureError), second.measuring():
            pass


def test_memory_is_reserved_up_to_what_there_is(tmp_path: Path) -> None:
    lease = Lease("GPU-x", folder=tmp_path)
    mine = Reservations(lease, capacity=100.0, patience=0.2)
    refused = pytest.raises(InfrastructureError, match="no room for 0 GiB within 0 s: other")
    with mine.reserved(60.0), mine.reserved(40.0), refused, mine.reserved(1.0):
        pass
    with mine.reserved(1000.0):
        pass  # who wants more than there is gets all


def test_a_small_request_does_not_stand_behind_a_large_one_and_leaves_it_its_part(tmp_path: Path) -> None:
    lease, order = Lease("GPU-x", folder=tmp_path), list[str]()

    def take(nbytes: float, name: str) -> None:
        with Reservations(lease, 100.0).reserved(nbytes):
            order.append(name)

    def waiting(nbytes: float, name: str) -> threading.Thread:
        thread = threading.Thread(target=take, args=(nbytes, name))
        thread.start()
        time.sleep(0.1)
        return thread

    impatient = Reservations(lease, 100.0, patience=0.1)
    with ExitStack() as small, Reservations(lease, 100.0).reserved(60.0):
        large = waiting(60.0, "large")
        take(10.0, "small")
        for _ in range(3):
            small.enter_context(impatient.reserved(10.0))
        with pytest.raises(InfrastructureError, match="no room"), impatient.reserved(10.0):
            pass  # more would keep the large one waiting when its turn comes
        with pytest.raises(InfrastructureError, match="no room"), impatient.reserved(20.0):
            pass  # nor is a middling one let in before it
        assert order == ["small"]
    large.join()
    with Reservations(lease, 100.0).reserved(30.0):
        whole = waiting(80.0, "whole")
        with pytest.raises(InfrastructureError, match="no room"), impatient.reserved(10.0):
            pass  # what wants more than the large ones' part would never come behind small ones
    whole.join()
    assert order == ["small", "large", "whole"]


def test_who_waits_for_memory_lets_others_measure_and_has_a_turn_again_after(tmp_path: Path) -> None:
    lease = Lease("GPU-x", folder=tmp_path, patience=5, quantum=0.0)
    access = GpuAccess(lease, Reservations(lease, 100.0), wanted=60.0)
    order: list[str] = []

    def judge() -> None:
        with access.computing(), access.at_full_shape(), access.at_full_shape():  # reserved once, or it would wait
            order.append("at full shape")
            assert access.room == 40.0
            assert len(lease.holders()) == 1

    with Reservations(lease, 100.0).reserved(60.0):
        thread = threading.Thread(target=judge)
        thread.start()
        time.sleep(0.1)
        with GpuAccess(lease).measuring():
            order.append("measured")
    thread.join()
    assert order == ["measured", "at full shape"]
    assert (access.room, access.wanted) == (100.0, 60.0)


def test_who_reserves_nothing_is_known_to_be_at_work_and_in_nobodys_way(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", RESERVE.replace("90.0", "0.0"), str(tmp_path)]
    mine = Reservations(Lease("GPU-x", folder=tmp_path), 100.0, patience=1.0)
    assert not mine.others
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"reserved\n"
        with mine.reserved(100.0):
            assert mine.others
        other.kill()
    assert not mine.others


RESERVE = (
    "import sys, time; from pathlib import Path; from egg_graph.evaluator.device.lease import Lease\n"
    "from egg_graph.evaluator.device.reservation import Reservations\n"
    "with Reservations(Lease('GPU-x', folder=Path(sys.argv[1])), 100.0).reserved(90.0):\n"
    "    print('reserved', flush=True); time.sleep(60)\n"
)


def test_memory_that_a_dead_judge_reserved_is_free_again(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", RESERVE, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as other:
        assert other.stdout is not None
        other.stdout.readline()
        threading.Timer(0.3, other.kill).start()
        access = GpuAccess(lease := Lease("GPU-x", folder=tmp_path), Reservations(lease, 100.0, patience=20))
        with accounted("correctness") as account, access.reserved(20.0):
            assert 0.1 < access.waited < 20
        assert account.spending().seconds["waiting"] == pytest.approx(access.waited, abs=0.02)


def test_a_judge_sees_whether_others_share_its_gpu(tmp_path: Path) -> None:
    turns = GpuAccess(Lease("GPU-x", folder=tmp_path))
    with turns.computing():
        pass
    assert not turns.crowded
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    sharing = HOLD.replace(".alone()", ".shared()")
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

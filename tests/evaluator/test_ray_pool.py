"""A real Ray cluster on this machine, whose worker is ended in the middle of an evaluation.

That several workers answer side by side and in order: test_pool.py.
"""

import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from egg_graph.evaluator import Evaluator, RayPool
from egg_graph.schema import BadInput, Evaluation, Hardware
from tests.evaluator.slow_candidate import RIGHT, candidate, task
from tests.sample import thorough

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pool() -> Iterator[RayPool]:
    pytest.importorskip("ray", reason="Ray is not installed")
    with RayPool(workers=1, cpus_per_worker=0.1, timeout=20.0) as made:
        yield made


def actor_pids() -> list[int]:
    """Processes of living actors, by their title."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/cmdline", "rb") as file:
                    title = file.read()
            except OSError:
                continue
            if title.startswith(b"ray::_Actor"):
                found.append(int(entry))
    return found


@thorough
def test_an_actor_that_dies_loses_nothing(pool: RayPool, h200: Hardware) -> None:
    assert isinstance(pool, Evaluator)
    wrong = RIGHT.replace("2.0 *", "2.1 *")
    candidates = [candidate(wrong if number % 2 else RIGHT, number=number, slow=True) for number in range(2)]
    answers: list[Evaluation] = []
    thread = threading.Thread(target=lambda: answers.extend(pool.evaluate_many(task(h200), candidates)))
    thread.start()
    deadline = time.monotonic() + 60
    while not (pids := actor_pids()) and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(0.5)  # in the middle: its judge is starting
    os.kill(pids[0], signal.SIGKILL)
    thread.join(200)
    assert [answer.candidate for answer in answers] == [c.id for c in candidates]
    assert [answer.status for answer in answers] == ["correct", "incorrect"]


def test_what_is_wrong_with_a_reference_comes_back_as_it_was(pool: RayPool, h200: Hardware) -> None:
    broken = task(h200).model_copy(update={"reference": "import nothing_here\n"})
    with pytest.raises(BadInput, match="line 1"):
        pool.baseline(broken)


@pytest.mark.parametrize("options", [{"workers": 0}, {"workers": 1, "gpus_per_worker": 2}])
def test_pools_that_make_no_sense_are_refused(options: dict) -> None:
    with pytest.raises(BadInput):
        RayPool(**options)


def test_without_ray_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(BadInput, match=r"egg-graph\[ray\]"):
        RayPool(workers=1)

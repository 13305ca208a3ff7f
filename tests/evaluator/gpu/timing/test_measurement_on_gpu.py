"""No time that was not taken, and no honest kernel turned away: on a GPU."""

from collections.abc import Iterator

import pytest

from egg_graph.evaluator import gpu_present
from egg_graph.schema import Hardware
from tests.evaluator.gpu.timing.candidates import CHEATS, HONEST, SMALL, SOFTMAX, Entry

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not gpu_present(), reason="no NVIDIA GPU on this machine")]


@pytest.fixture(scope="module")
def ground(h200: Hardware) -> Iterator["Ground"]:  # noqa: F821 - imports torch
    from tests.evaluator.gpu.timing.ground import Ground

    own = Ground(h200)
    yield own
    own.close()


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """Nobody else measures or computes on this GPU meanwhile."""
    from egg_graph.evaluator.device.access import access_to

    with access_to("gpu").alone_throughout():
        yield


@pytest.mark.parametrize("entry", HONEST, ids=lambda entry: entry.name)
def test_an_honest_kernel_is_timed_and_its_clocks_agree(ground, entry: Entry) -> None:
    found = ground.time(entry.source, entry.problem)
    assert not found.findings, found.findings
    timing = found.timing
    assert timing is not None, found.skipped
    assert {clock.name for clock in timing.clocks} == {"events", "device", "host"}
    if entry.name != "waits inside":  # what waiting costs is paid
        assert timing.candidate_ms == pytest.approx(timing.clocks[0].milliseconds), timing.notes
    assert timing.checked_calls > timing.pairs
    assert timing.before is not None
    if entry.problem in (SOFTMAX, SMALL):
        assert timing.pairs >= 30


def test_the_same_work_takes_the_same_time(ground) -> None:
    entry = next(e for e in HONEST if e.name == "same as pytorch")
    timing = ground.time(entry.source, entry.problem).timing
    assert timing is not None
    assert timing.ratio == pytest.approx(1.0, abs=0.02)
    assert timing.ratio_high - timing.ratio_low < 0.03


@pytest.mark.parametrize("entry", CHEATS, ids=lambda entry: entry.name)
def test_a_trick_is_found_out(ground, entry: Entry) -> None:
    found = ground.time(entry.source, entry.problem)
    assert found.timing is None
    assert {finding.kind for finding in found.findings} & set(entry.findings), found

"""Measurements with a stand-in for the GPU: what candidates get, what is checked, and what is rejected."""

from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, pairwise, repeat
from typing import Any

import pytest
import torch

from egg_graph.evaluator.device import interference
from egg_graph.evaluator.gpu.timing import agreement, bursts, measurement, samples
from egg_graph.evaluator.gpu.timing import controls as controls_module
from egg_graph.evaluator.gpu.timing import session as timing_session
from egg_graph.evaluator.gpu.timing.agreement import Burst
from egg_graph.evaluator.gpu.timing.input_sets import InputSets
from egg_graph.evaluator.gpu.timing.measurement import TimingResult
from egg_graph.evaluator.gpu.timing.samples import FEWEST_STEADY
from egg_graph.evaluator.gpu.timing.session import TimingSession
from egg_graph.evaluator.gpu.timing.speed import judge_speed
from egg_graph.schema import Clock, GpuState
from tests.evaluator.gpu.stand_ins import InProcess

pytestmark = pytest.mark.slow

RIGHT = "return torch.relu(self.linear(x))"
Timed = Callable[..., TimingResult]


def kinds(found: TimingResult) -> set[str]:
    return {finding.kind for finding in found.findings}


def test_a_right_candidate_is_timed_and_every_answer_compared(timing_of: Timed) -> None:
    found = timing_of(RIGHT)
    assert not found.findings
    timing = found.timing
    assert timing is not None
    assert timing.pairs >= FEWEST_STEADY
    assert timing.checked_calls > timing.pairs  # the unrecorded calls as well
    assert {clock.name: clock.milliseconds for clock in timing.clocks} == {"events": 1.0, "device": 1.0, "host": 1.0}
    assert {clock.name: clock.milliseconds for clock in timing.baseline_clocks} == {"events": 1.0, "device": 1.0}
    assert timing.clock == "events"
    assert timing.candidate_host_ms is not None and timing.baseline_host_ms is not None
    assert timing.before is not None
    assert timing.before.sm_clock_mhz == 1980.0
    assert judge_speed(timing, "ieee")[0] == "inconclusive"  # every call takes 1 ms here
    assert any("inputs of its own" in note for note in timing.notes)


def test_no_two_calls_have_the_same_inputs_and_both_places_and_kept_objects_occur(
    timing_of: Timed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples, "FEWEST_STEADY", samples.FEWEST_PAIRS)
    setup = "self.seen, self.places, self.objects = [], set(), {}"
    body = (
        "self.seen.append(float(x[0, 0]))\nself.places.add(x.data_ptr())\n"
        "self.objects[id(x)] = self.objects.get(id(x), 0) + 1\n"
        "if len(self.seen) == 150:\n    again = len(self.seen) - len(set(self.seen))\n"
        "    raise RuntimeError(f'{again} again, {len(self.places)} places, most {max(self.objects.values()) > 9}, '\n"
        "                       f'version {x._version}')\n" + RIGHT
    )
    with pytest.raises(Exception, match=r"[0-6] again, 3 places, most True, version 0"):
        timing_of(body, setup)


@pytest.mark.parametrize(
    ("body", "setup", "kind"),
    [
        ("if 0 not in self.kept:\n    self.kept[0] = torch.relu(self.linear(x))\nreturn self.kept[0]", "self.kept = {}",
         "replayed_output"),
        ("key = x.data_ptr()\nif key not in self.kept:\n    self.kept[key] = torch.relu(self.linear(x))\n"
         "return self.kept[key]", "self.kept = {}", "replayed_output"),
        ("out = torch.zeros(64, 48)\ndef later():\n    time.sleep(0.02)\n    with torch.no_grad():\n"
         "        out.copy_(torch.relu(self.linear(y)))\ny = x.clone()\n"
         "threading.Thread(target=later).start()\nreturn out", "", "late_output"),
        ("self.calls += 1\nreturn torch.relu(self.linear(x)) * (1.0 if self.calls % 8 else 1.01)", "self.calls = 0",
         "wrong_values"),
        ("self.calls += 1\nout = torch.relu(self.linear(x))\nreturn out if self.calls < 9 else out[:, :8]",
         "self.calls = 0", "wrong_structure"),
    ],
    ids=["kept", "by pointer", "thread", "wrong now and then", "other form"],
)  # fmt: skip
def test_a_trick_that_only_the_clock_sees_is_found(timing_of: Timed, body: str, setup: str, kind: str) -> None:
    found = timing_of(body, setup)
    assert found.timing is None
    assert kind in kinds(found), found.findings


def host_tells(monkeypatch: pytest.MonkeyPatch, candidate: float, controls: Sequence[float] = (1.0, 1.0)) -> None:
    """Let the host's clock tell so many times the truth of the candidate, and of the null kernel and the baseline."""
    plain = agreement.host_clock

    def telling(factors: Iterator[float]) -> Callable[[list[Burst], list[Burst]], Clock]:
        def host(more: list[Burst], less: list[Burst]) -> Clock:
            clock = plain(more, less)
            return clock.model_copy(update={"milliseconds": next(factors) * clock.milliseconds})

        return host

    monkeypatch.setattr(measurement, "host_clock", telling(repeat(candidate)))
    monkeypatch.setattr(controls_module, "host_clock", telling(cycle(controls)))


def test_events_that_understate_the_candidate_alone_are_found(
    timing_of: Timed, monkeypatch: pytest.MonkeyPatch
) -> None:
    host_tells(monkeypatch, 1.5)
    found = timing_of(RIGHT)
    assert kinds(found) == {"clock_disagreement"}
    assert found.timing is None
    assert "baseline: events 1 ms, device 1 ms, host 1 ms; null kernel: events 1 ms" in found.findings[0].message


def test_after_a_small_difference_the_largest_clock_counts_on_both_sides(
    timing_of: Timed, monkeypatch: pytest.MonkeyPatch
) -> None:
    host_tells(monkeypatch, 1.2, (1.0, 1.05))
    timing = timing_of(RIGHT).timing
    assert timing is not None
    assert (timing.clock, timing.candidate_ms, timing.eager_ms) == ("host", *map(pytest.approx, (1.2, 1.05)))
    assert timing.ratio == pytest.approx(1.05 / 1.2)
    status, reason = judge_speed(timing, "ieee")
    assert status == "slower"
    assert "clocks disagree" in reason
    status, _ = judge_speed(timing.model_copy(update={"ratio_low": 1.2, "ratio_high": 1.3}), "ieee")
    assert status == "inconclusive", "never faster by clocks that disagree"


def test_a_busy_host_changes_no_ratio(timing_of: Timed, monkeypatch: pytest.MonkeyPatch) -> None:
    """An equal kernel was told 0.80x: events 2.088 ms, host 2.634 ms, while eager takes 2.104 ms by events."""
    for controls in ((1.26, 1.0), (1.0, 1.26)):
        host_tells(monkeypatch, 1.26, controls)
        found = timing_of(RIGHT)
        assert found.findings == []
        timing = found.timing
        assert timing is not None
        assert (timing.clock, timing.candidate_ms, timing.ratio) == ("events", 1.0, 1.0)
        assert any("as much on the baseline or on a null kernel" in note for note in timing.notes)


def test_a_busy_host_hides_no_more_than_it_adds_itself(timing_of: Timed, monkeypatch: pytest.MonkeyPatch) -> None:
    host_tells(monkeypatch, 2.6, (1.3, 1.3))
    assert kinds(timing_of(RIGHT)) == {"clock_disagreement"}


def test_the_candidate_is_gone_before_others_are_looked_at(timing_of: Timed, monkeypatch: pytest.MonkeyPatch) -> None:
    host_tells(monkeypatch, 1.5)
    plain, alive = measurement.measure_controls, []

    def watched(session: TimingSession, worker: InProcess, *rest: object) -> object:
        alive.append(worker.alive)
        return plain(session, worker, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(measurement, "measure_controls", watched)
    timing_of(RIGHT)
    assert alive == [False]


@pytest.fixture
def clocks_disagree(monkeypatch: pytest.MonkeyPatch) -> None:
    host_tells(monkeypatch, 2.6)


def test_clocks_that_disagree_while_others_compute_accuse_nobody(
    timing_of: Timed, clocks_disagree: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = iter(range(1000))
    taken = {4, 17}  # now and then
    monkeypatch.setattr(
        interference, "clock_steps", lambda driver, ns: (900_000 if next(looks) in taken else 1_000, 32)
    )
    found = timing_of(RIGHT)
    assert found.findings == [] and found.timing is None
    assert "busy with other work (a kernel was interrupted for 900 us" in found.skipped


def test_others_that_came_meanwhile_accuse_nobody(
    timing_of: Timed, clocks_disagree: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = iter([GpuState(other_processes=0), *[GpuState(other_processes=1)] * 9])
    for module in (interference, measurement):
        monkeypatch.setattr(module, "read_gpu_state", lambda: next(states))
    found = timing_of(RIGHT)
    assert found.findings == [] and "1 other compute processes listed, 0 before" in found.skipped


def test_clocks_are_not_read_again_before_others_are_gone(
    timing_of: Timed, clocks_disagree: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter(["", "the GPU is busy with other work"])  # before the first measurement, and before the second
    monkeypatch.setattr(interference, "wait_until_idle", lambda driver: next(answers))
    found = timing_of(RIGHT)
    assert found.findings == [] and found.skipped == "the GPU is busy with other work"


def test_one_look_alone_excuses_nobody(
    timing_of: Timed, clocks_disagree: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = iter(range(1000))
    monkeypatch.setattr(interference, "clock_steps", lambda *a: (900_000 if next(looks) == 4 else 1_000, 32))
    assert kinds(timing_of(RIGHT)) == {"clock_disagreement"}


def test_a_time_below_the_floor_is_an_alarm(timing_of: Timed, monkeypatch: pytest.MonkeyPatch) -> None:
    from egg_graph.evaluator.gpu.floor import MemoryFloor
    from egg_graph.evaluator.gpu.timing import baseline

    monkeypatch.setattr(baseline, "memory_floor", lambda *a: MemoryFloor(bytes=4.8e9 * 2, bandwidth=4.8e12))
    found = timing_of(RIGHT)
    assert kinds(found) == {"below_roofline"}
    assert "9600 GB/s" in found.findings[0].message


def test_inputs_that_cannot_be_drawn_anew_are_told(timing_of: Timed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(InputSets, "_draw", lambda self, seed: [torch.zeros(3)])
    timing = timing_of(RIGHT).timing
    assert timing is not None
    assert any("all timed calls have the same inputs" in note for note in timing.notes)


def test_little_memory_means_fewer_sets_and_says_so(timing_of: Timed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TimingSession, "_affordable_sets", lambda self, baseline, most: 1)
    timing = timing_of(RIGHT).timing
    assert timing is not None
    assert timing.block == 1
    assert any("1 sets of inputs" in note for note in timing.notes)


def test_where_no_call_warms_up_every_burst_follows_work_of_the_judge(
    timing_of: Timed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever gets the GPU back is slower at first: a filter of 0.047 ms, beside a baseline of 21 ms, was told 0.15."""
    plain_burst, plain_poison, told = TimingSession.run_burst, timing_session.poison_, []

    def run_burst(self: TimingSession, *rest: Any, **options: Any) -> Any:
        told.append("burst")
        return plain_burst(self, *rest, **options)

    def poison(target: torch.Tensor) -> None:
        told.append("judge")
        plain_poison(target)

    monkeypatch.setattr(TimingSession, "_affordable_sets", lambda self, baseline, most: 1)
    monkeypatch.setattr(TimingSession, "run_burst", run_burst)
    monkeypatch.setattr(timing_session, "poison_", poison)
    assert timing_of(RIGHT).timing is not None
    assert told.count("burst") > 2 * bursts.BURSTS, "with forwards and without"
    assert all(before == "judge" for before, step in pairwise(told) if step == "burst")


def test_a_flush_that_was_left_out_is_found(timing_of: Timed, monkeypatch: pytest.MonkeyPatch) -> None:
    body = (
        "import gc\nfor thing in gc.get_objects():\n    if type(thing).__name__ == 'PretendDriver':\n"
        "        thing.fill = lambda *a: None\n" + RIGHT
    )
    assert kinds(timing_of(body)) == {"library_patched"}


def test_a_timed_call_that_writes_beside_its_input_is_found(timing_of: Timed) -> None:
    body = "import ctypes\nself.calls += 1\nif self.calls > 40:\n    ctypes.memset(x.data_ptr() - 8, 1, 4)\n" + RIGHT
    found = timing_of(body, "self.calls = 0")
    assert kinds(found) == {"out_of_bounds"}
    assert found.timing is None


def test_a_busy_gpu_is_nobodys_fault(timing_of: Timed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interference, "wait_until_idle", lambda driver: "the GPU is busy with other work")
    found = timing_of(RIGHT)
    assert found.skipped == "the GPU is busy with other work"
    assert found.timing is None
    assert not found.findings

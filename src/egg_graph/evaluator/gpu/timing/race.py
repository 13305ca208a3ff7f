"""The timing rung: candidate against PyTorch's best in turns, on one GPU, at full shape.

Every call of either side, recorded or not, has inputs of its own, which nobody in the candidate's process has seen
before (`sealed`), and every answer is compared (`timed_answers`). The i-th recorded call of the one and of the other
are on the same inputs and make a pair. Three clocks must agree before a time is told (`clocks`), and it must be
possible on this GPU (`floor`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from egg_graph.evaluator.device import state as gpu_state
from egg_graph.evaluator.device.clock import Pace, flush_bytes
from egg_graph.evaluator.gpu.answers import arena, load, overrun_findings, share_inputs, source_of
from egg_graph.evaluator.gpu.timing.agreement import Agreement, Burst, agreement, device_clock, event_clock, host_clock
from egg_graph.evaluator.gpu.timing.answers import Examiner, TimedAnswer
from egg_graph.evaluator.gpu.timing.baseline import PyTorchBaseline
from egg_graph.evaluator.gpu.timing.ratio import median, ratio_interval
from egg_graph.evaluator.gpu.timing.session import BLOCK, TimingSession, Turn
from egg_graph.evaluator.gpu.worker_session import WorkerSession
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.wire.poison import poison_
from egg_graph.schema import Check, Finding, GpuState, Status, Timing

FEWEST_PAIRS, PAIRS = 32, 120
TIME_BOX = 1.5
"""Seconds after which no further turn begins once there are enough pairs; by the judge's clock, which no sleeping
candidate can use up to be measured less: the pairs come first."""
CEILING = 120.0
"""Seconds that end it with fewer (five at least), which is told."""
RESOLUTION = 0.005
"""Identical work measures the same to within this part, in two processes; a smaller difference is none."""
WARM_SECONDS = 0.3
BURSTS = 7
SIZES = (1, 2, 4, 8, 14)
"""Numbers of calls that a burst may have."""
BLANK_SPIN_MS = 2.0
"""Before a burst without forwards: longer than it takes to queue."""
BURST_MS = 200.0
"""About the longest that one burst's forwards may take."""
LATE_SECONDS = 0.03
"""What a forward left to a thread or to another stream is done by then."""
LATE_TRIES = 8
"""Such work may be done in time by chance."""
AUDIT = 10.0
"""A speedup that a human should look at."""
SLOW_START = 5.0
"""Unrecorded calls that take so many times longer than recorded ones are told."""


@dataclass
class Race:
    """What the timing rung established."""

    launches: dict[str, Any]
    """The worker's answer to `record`."""
    timing: Timing | None = None
    """None where the forward launches no Triton kernel, an answer was wrong, or it was not timed."""
    findings: list[Finding] = field(default_factory=list)
    check: Check | None = None
    """The latest comparison of a timed answer in fp64; None where PyTorch's answer sufficed."""
    skipped: str = ""
    """Why nothing was timed, where neither candidate nor problem is to blame."""


def race(session: WorkerSession, problem: Problem, baseline: PyTorchBaseline, machine: str) -> Race:
    """Load at full shape, record the launches of one forward, and time it against the baseline.

    Raises:
        CandidateFailed: if a call does not come back.
        torch.OutOfMemoryError: if the GPU does not hold what the judge needs.
    """
    case = baseline.case
    with arena(session) as shared:
        session.ask("load", **load(case, problem, shared))
        _, forms = share_inputs(case, shared)
        session.ask("inputs", inputs=forms, seed=case.forward_seed)
        pace = Pace(**session.ask("warm", seconds=0.0))
        found = Race(session.ask("record"))
        if not found.launches["launches"]:
            return found
        found.skipped = gpu_state.busy(baseline.gpu)
        if found.skipped:
            return found
        slower_ms = max(pace.wall_ms, baseline.paces[baseline.best].wall_ms)
        timing_session = TimingSession(problem, baseline, shared, slow_ms=slower_ms)
        session.ask("clock", **timing_session.forms)
        examiner = Examiner(problem, case, machine, source_of(session))
        _Race(session, timing_session, examiner, found).run(pace)
        found.findings += overrun_findings(shared.overruns())
        if found.findings:
            found.timing, found.skipped = None, ""
    return found


class _Race:
    """One race under way."""

    def __init__(self, session: WorkerSession, timing_session: TimingSession, examiner: Examiner, found: Race) -> None:
        self.session, self.timing_session, self.examiner, self.found = session, timing_session, examiner, found
        self.baseline = timing_session.baseline
        self.lead_ms: list[float] = []

    def run(self, pace: Pace) -> None:
        """Warm up, measure, and measure again where the clocks disagree, once nobody else uses the GPU."""
        before = gpu_state.state()
        if not self._warm_up():
            return
        measured = self._measured()
        again = measured is not None and not measured[1].agrees
        if again:
            self.found.skipped = gpu_state.busy(self.baseline.gpu)
            if self.found.skipped:
                return
            measured = self._measured()
        if measured is not None:
            self._conclude(*measured, pace, before, again=again)

    def _measured(self) -> tuple[TimedTurns, Agreement] | None:
        """All of it once; None where an answer was wrong."""
        turns = TimedTurns()
        if not turns.take(self._turn):
            return None
        bursts = self._bursts(turns)
        return None if bursts is None else (turns, self._agreement(turns, *bursts))

    # ---------------------------------------------------------------------------------------------------- turns

    def _warm_up(self) -> bool:
        """Unrecorded turns, the same for both sides, until the GPU is warm and the spin fits; their answers count."""
        started, settled = time.monotonic(), False
        for number in range(1000):
            spent = time.monotonic() - started
            if (number >= 2 and settled and spent > WARM_SECONDS) or (number and spent > 3 * WARM_SECONDS):
                break
            turn = self._turn(number)
            if turn is None:
                return False
            if number or self.timing_session.lead == 0:
                settled = self.timing_session.settle_spin(turn.queued) or settled
        return True

    def _turn(self, number: int) -> Turn | None:
        """One turn, its answers compared; None where one is wrong."""
        turn = self.timing_session.turn(self.session)
        if not self.timing_session.flushed:
            message = "the cache was not flushed before a timed call as the candidate's process was told"
            self.found.findings.append(Finding(kind="library_patched", message=message))
        self.lead_ms += turn.lead_ms
        return turn if self._right(turn.answers) and not self.found.findings else None

    def _right(self, answers: Sequence[TimedAnswer]) -> bool:
        number, findings = self.examiner.examine(answers)
        self.found.check = self.examiner.check
        if findings:
            self.found.findings += self._explained(answers, number, findings)
        return not findings

    # --------------------------------------------------------------------------------------------- wrong answers

    def _explained(self, answers: Sequence[TimedAnswer], number: int, findings: list[Finding]) -> list[Finding]:
        """How a wrong answer of a timed call came about, where that can be told."""
        if findings[0].kind in ("wrong_structure", "wrong_shape", "wrong_dtype"):
            return findings
        first = [leaf.expected.to(leaf.dtype) for leaf in self.examiner.case.leaves]
        others = [*answers, TimedAnswer(None, "", [], answers[number].got, first)]
        if self.examiner.replayed(answers[number], others):
            message = "a timed call returned the right answer to the inputs of another call, not to its own"
            return [Finding(kind="replayed_output", message=message), *findings]
        if self._stale():
            message = (
                "a timed call answered for the inputs that had lain in the same memory before: a stream that does not "
                "wait for the current one, or an answer kept by address"
            )
            cure = "let every other stream wait for the current stream before it reads an input"
            return [Finding(kind="replayed_output", message=message, cure=cure), *findings]
        if self._late():
            message = (
                "the answer was not there when the forward's stream had reached its end, and was right a little later: "
                "work was left to a thread or to a stream that nobody waits for"
            )
            cure = "let the current stream wait for every other stream before forward returns"
            return [Finding(kind="late_output", message=message, cure=cure), *findings]
        return findings

    def _stale(self) -> bool:
        """Whether a call whose inputs lie where another's lay is answered with the other's answer."""
        if self.timing_session.sets < 2:
            return False
        self.timing_session.deal(2)
        self.timing_session.expect([0, 1])
        told = [self.timing_session.call(self.session, number, first=not number, place=0) for number in (0, 1)]
        answers = [self.timing_session.answer(i, a.get("structure"), a.get("leaves")) for i, a in enumerate(told)]
        return not self.examiner.form(answers[1]) and self.examiner.replayed(answers[1], answers)

    def _late(self) -> bool:
        """Whether one more call's answer is wrong when it should be there, and right after some time."""
        for _ in range(LATE_TRIES):
            self.timing_session.deal(1)
            self.timing_session.expect([0])
            told = self.timing_session.call(self.session, 0, first=True)
            answer = self.timing_session.answer(0, told.get("structure"), told.get("leaves"))
            if self.examiner.form(answer):
                return False
            if self.examiner.close(answer):
                continue  # by chance in time
            time.sleep(LATE_SECONDS)
            for target in answer.got:
                poison_(target)
            torch.cuda.synchronize()
            told = self.session.ask("again", set=0)
            answer = self.timing_session.answer(0, told.get("structure"), told.get("leaves"))
            return not self.examiner.form(answer) and self.examiner.close(answer)
        return False

    # ------------------------------------------------------------------------------------------------ host clock

    def _bursts(self, turns: TimedTurns) -> tuple[list[Burst], list[Burst]] | None:
        """Bursts with forwards and without, by this process's clock; None where an answer was wrong."""
        queued = median(turns.queued)
        longest = max(median(turns.mine), queued)
        lead = self.timing_session.lead
        room = self.timing_session.sets - lead
        calls = max(size for size in SIZES if size == 1 or (size <= room and size * longest <= BURST_MS))
        numbers = range(lead, lead + calls)
        spin_ns = int(1e6 * min(2.0 * calls * queued + 1.0, 2 * BURST_MS))
        with_forward: list[Burst] = []
        for _ in range(BURSTS if calls * longest < BURST_MS / 4 else 3):
            self.timing_session.deal(lead + calls)
            told = self._led(self.session, lead, spin_ns=spin_ns)
            burst, rest = self.timing_session.burst(self.session, numbers, spin_ns=spin_ns)
            told += rest
            self.timing_session.expect(range(lead + calls))
            answers = [self.timing_session.answer(i, *pair) for i, pair in enumerate(told)]
            if len(told) != lead + calls:
                self.found.findings.append(Finding(kind="exited", message="the process gave no readable answer"))
            if self.found.findings or not self._right(answers):
                return None
            with_forward.append(burst)
        return with_forward, self._without_forwards(calls)

    def _led(self, session: WorkerSession, lead: int, *, spin_ns: int, forward: bool = True) -> list[Any]:
        """The unrecorded calls before a burst: the GPU has switched from another process."""
        return self.timing_session.burst(session, range(lead), spin_ns=spin_ns, forward=forward)[1] if lead else []

    def _without_forwards(self, calls: int) -> list[Burst]:
        """The same bursts without forwards, in a process that never loads a candidate; measured once per size."""
        if calls not in self.baseline.idle:
            lead = self.timing_session.lead
            blank = self.session.blank()
            try:
                blank.start(1.0)
                blank.ask("clock", **self.timing_session.forms)
                for size in (n for n in SIZES if n == calls or n + lead <= self.timing_session.sets):
                    self.baseline.idle[size] = []
                    for _ in range(BURSTS + 2):
                        self.timing_session.expect(
                            range(lead)
                        )  # so that the GPU switches, as it does before a candidate
                        self._led(blank, lead, spin_ns=1_000_000, forward=False)
                        numbers = range(lead, lead + size)
                        burst, _ = self.timing_session.burst(
                            blank, numbers, spin_ns=int(1e6 * BLANK_SPIN_MS), forward=False
                        )
                        self.baseline.idle[size].append(burst)
                    del self.baseline.idle[size][:2]
            finally:
                blank.close()
        return self.baseline.idle[calls]

    # ----------------------------------------------------------------------------------------------- conclusion

    def _agreement(self, turns: TimedTurns, with_forward: list[Burst], without: list[Burst]) -> Agreement:
        bound = sum(burst.host_bound for burst in with_forward) * 2 > len(with_forward)
        own = (median([burst.queued_ms for burst in without]) + BLANK_SPIN_MS) / without[0].calls
        return agreement(
            event_clock(turns.mine),
            device_clock(turns.stamps, self.baseline.empty_ms, self.baseline.resolution_ns),
            host_clock(with_forward, without),
            launches=len(self.found.launches["launches"]),
            waits_ms=max(0.0, own) if bound or median(turns.queued) > self.timing_session.spin_ns / 1e6 else None,
        )

    def _conclude(self, turns: TimedTurns, agreed: Agreement, pace: Pace, before: GpuState, *, again: bool) -> None:
        paid = median(turns.mine)
        if agreed.flatters:
            self.session.ask("finish")  # nothing of the candidate's own may look like others' work
            self.found.skipped = gpu_state.disturbed(self.baseline.gpu, before)
            if self.found.skipped:
                return
            message = (
                f"the clocks disagree twice ({agreed.words}): part of the work is done outside of what CUDA events see"
            )
            self.found.findings.append(Finding(kind="clock_disagreement", message=message))
            return
        paid_ms = paid if agreed.agrees else agreed.largest_ms
        alarm = self.baseline.floor.alarm(paid_ms)
        if alarm is not None:
            self.found.findings.append(alarm)
            return
        notes = [*self._notes(turns, pace), *self.examiner.notes]
        if again:
            verb = "agreed when measured again" if agreed.agrees else "disagree: the largest counts"
            notes.append(f"the clocks {verb} ({agreed.words})")
        self.found.timing = _timing(turns, self.baseline, paid_ms, notes).model_copy(
            update={
                "clocks": agreed.clocks,
                "checked_calls": self.examiner.checked,
                "before": before,
                "after": gpu_state.state(),
            }
        )

    def _notes(self, turns: TimedTurns, pace: Pace) -> list[str]:
        timing_session, paid = self.timing_session, median(turns.mine)
        notes = [
            *self.baseline.notes,
            *([timing_session.draws.note] if timing_session.draws.note else []),
            f"blocks of {timing_session.block} after {timing_session.lead} unrecorded, in turns, either side first at "
            f"random; before every call the L2 cache is flushed ({flush_bytes() >> 20} MiB written) and the "
            "GPU kept busy until the forward is queued; every call has inputs of its own",
        ]
        if timing_session.block < BLOCK:
            notes.append(f"memory (or time) allows {timing_session.sets} sets of inputs at once")
        if turns.pairs < FEWEST_PAIRS:
            notes.append(f"{turns.pairs} pairs alone: {CEILING:.0f} s were over")
        queued = median(turns.queued)
        if queued > 2 * paid + 0.05:
            notes.append(
                f"by the host's clock a forward takes {queued:.3f} ms to queue: launching costs more than the kernels"
            )
        if self.lead_ms and median(self.lead_ms) > SLOW_START * paid + 0.1:
            notes.append(f"unrecorded calls take {median(self.lead_ms):.3f} ms (median), far longer than recorded ones")
        if median(turns.theirs) > AUDIT * paid:
            notes.append(f"more than {AUDIT:.0f} times as fast as PyTorch: a human should read this kernel")
        return notes


class TimedTurns:
    """Recorded calls of candidate and baseline."""

    def __init__(self) -> None:
        self.block = 1
        self.mine: list[float] = []
        self.theirs: list[float] = []
        self.stamps: list[tuple[int, int]] = []
        self.queued: list[float] = []

    @property
    def pairs(self) -> int:
        return len(self.mine)

    def take(self, turn: Callable[[int], Turn | None]) -> bool:
        """Measure until there is enough; False where a turn gave None. A turn gets its number."""
        started = time.monotonic()
        number = 0
        while self.pairs < PAIRS:
            spent = time.monotonic() - started
            if (spent > TIME_BOX and self.pairs >= FEWEST_PAIRS) or (spent > CEILING and self.pairs >= 5):
                break
            taken = turn(number)
            if taken is None:
                return False
            self.block = len(taken.mine)
            self.mine += taken.mine
            self.theirs += taken.theirs
            self.stamps += taken.stamps
            self.queued += taken.queued
            number += 1
        return True


def _timing(turns: TimedTurns, baseline: PyTorchBaseline, milliseconds: float, notes: Sequence[str]) -> Timing:
    """The Timing where a forward of the candidate takes `milliseconds`."""
    ratio, low, high = ratio_interval(turns.mine, turns.theirs, block=turns.block)
    paid = median(turns.mine) / milliseconds  # below 1 where a larger clock counts
    best: Literal["eager", "compile"] = "compile" if baseline.best == "compile" else "eager"
    measured = {**baseline.milliseconds, best: median(turns.theirs)}
    return Timing(
        candidate_ms=milliseconds,
        eager_ms=measured["eager"],
        compile_ms=measured.get("compile"),
        eager_fp32_ms=baseline.eager_fp32_ms,
        baseline=best,
        ratio=ratio * paid,
        ratio_low=low * paid,
        ratio_high=high * paid,
        pairs=turns.pairs,
        block=turns.block,
        candidate_calls_ms=tuple(round(ms, 5) for ms in turns.mine),
        baseline_calls_ms=tuple(round(ms, 5) for ms in turns.theirs),
        notes=tuple(notes),
    )


def disputed(timing: Timing) -> bool:
    """Whether the time is that of another clock than CUDA's events, which told less."""
    return any(clock.name == "events" and timing.candidate_ms > 1.0001 * clock.milliseconds for clock in timing.clocks)


def verdict(timing: Timing, precision: str) -> tuple[Status, str]:
    """Faster or slower only where the interval says so and the clocks agree."""
    baseline = "torch.compile" if timing.baseline == "compile" else "PyTorch eager"
    baseline_ms = timing.compile_ms if timing.baseline == "compile" else timing.eager_ms
    status: Status = "inconclusive"
    if timing.ratio_low > 1 + RESOLUTION:
        status = "faster"
    elif timing.ratio_high < 1 - RESOLUTION:
        status = "slower"
    doubt = ""
    if disputed(timing):
        status = "slower" if status == "slower" else "inconclusive"
        told = ", ".join(f"{clock.name} {clock.milliseconds:.4g} ms" for clock in timing.clocks)
        doubt = f"; the clocks disagree ({told}), the largest counts"
    return status, (
        f"{timing.ratio:.2f}x (95 % interval {timing.ratio_low:.2f} to {timing.ratio_high:.2f}, {timing.pairs} pairs) "
        f"against {baseline} at {precision}: {timing.candidate_ms:.4g} ms against {baseline_ms:.4g} ms{doubt}"
    )

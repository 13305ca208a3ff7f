"""Time a candidate against PyTorch's best forward, in paired blocks, on one GPU at full shape.

Every call of either side, recorded or not, has inputs of its own, which nobody in the candidate's process has seen
before (`session`), and every answer is compared (`timed_answers`). Three clocks must agree before a time counts
(`agreement`), and the time must be possible on this GPU (`gpu.floor`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from egg_graph.evaluator.device import interference
from egg_graph.evaluator.device.state import read_gpu_state
from egg_graph.evaluator.device.stream_timer import HostLatency
from egg_graph.evaluator.gpu.answers import arena, load, overrun_findings, share_inputs, source_of
from egg_graph.evaluator.gpu.timing.agreement import (
    NO_EXCESS,
    Agreement,
    Excess,
    compare_clocks,
    device_clock,
    event_clock,
    host_clock,
)
from egg_graph.evaluator.gpu.timing.baseline import PyTorchBaseline
from egg_graph.evaluator.gpu.timing.bursts import BurstPair, measure_bursts
from egg_graph.evaluator.gpu.timing.controls import Controls, measure_controls, read_device
from egg_graph.evaluator.gpu.timing.host_times import HostTimes, measure_host_times
from egg_graph.evaluator.gpu.timing.samples import PairedSamples
from egg_graph.evaluator.gpu.timing.session import PairedBlock, TimingSession
from egg_graph.evaluator.gpu.timing.speed import make_timing, measurement_notes
from egg_graph.evaluator.gpu.timing.statistics import median
from egg_graph.evaluator.gpu.timing.timed_answers import AnswerChecker, TimedAnswer
from egg_graph.evaluator.gpu.timing.wrong_answers import WrongAnswerExplainer
from egg_graph.evaluator.gpu.worker_session import WorkerSession
from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.schema import Check, Clock, Finding, GpuState, Timing

WARMUP_SECONDS = 0.15
"""Warm-up before the first recorded block [s]; three times as long if the spin is not settled by then."""
FEWEST_WARMUP_BLOCKS, MOST_WARMUP_BLOCKS = 2, 1000


@dataclass
class TimingResult:
    """What timing a candidate established."""

    launches: dict[str, Any]
    """The worker's answer to `record`."""
    timing: Timing | None = None
    """None if the forward launches no Triton kernel, an answer was wrong, or nothing was timed."""
    findings: list[Finding] = field(default_factory=list)
    check: Check | None = None
    """The latest comparison of a timed answer with fp64; None if PyTorch's answers were enough."""
    skipped: str = ""
    """Why nothing was timed, if neither candidate nor problem is to blame."""


def time_candidate(
    worker: WorkerSession, problem: Problem, baseline: PyTorchBaseline, machine: str, *, thorough: bool = False
) -> TimingResult:
    """Load a candidate at full shape, record the launches of one forward, and time it against the baseline.

    Args:
        worker: the candidate's process.
        problem: the task.
        baseline: PyTorch's forwards.
        machine: name of the GPU.
        thorough: whether to measure on, and to compare the answers, where the verdict is clear.

    Raises:
        CandidateFailed: if a call does not come back.
        torch.OutOfMemoryError: if the GPU does not hold what the judge needs.
        InfrastructureError: if nvidia-ml-py is not installed.
    """
    result, latency = _record(worker, problem, baseline.case)
    if not result.launches["launches"] or result.findings:
        return result
    result.skipped = interference.wait_until_idle(baseline.driver)
    if result.skipped:
        return result
    with arena(worker) as shared, baseline.inputs_allocated():
        slower_ms = max(latency.wall_ms, baseline.latencies[baseline.best].wall_ms)
        session = TimingSession(problem, baseline, shared, slower_ms=slower_ms)
        worker.ask("open_timing", **session.forms)
        checker = AnswerChecker(problem, baseline.case, machine, source_of(worker))
        PairedMeasurement(worker, session, checker, result, latency, thorough=thorough).run()
        result.findings += overrun_findings(shared.overruns())
        if result.findings:
            result.timing, result.skipped = None, ""
    return result


def _record(worker: WorkerSession, problem: Problem, case: Case) -> tuple[TimingResult, HostLatency]:
    """Load a candidate at full shape and record one forward; its inputs take memory only here."""
    with arena(worker) as shared:
        with case.held():
            worker.ask("load", **load(case, problem, shared))
            _, forms = share_inputs(case, shared)
        torch.cuda.empty_cache()  # what held the case is the candidate's now
        worker.ask("inputs", inputs=forms, seed=case.forward_seed)
        latency = HostLatency(**worker.ask("warm_up", seconds=0.0))
        result = TimingResult(worker.ask("record"))
        result.findings += overrun_findings(shared.overruns())
    return result, latency


@dataclass(frozen=True)
class Measured:
    """What measuring a candidate once gave."""

    samples: PairedSamples
    bursts: BurstPair
    agreement: Agreement
    again: bool = False
    """Whether the clocks disagreed before."""
    controls: Controls | None = None
    """The clocks on the baseline and on a null kernel; None where the candidate's agree."""

    def baseline_clocks(self, baseline: PyTorchBaseline) -> tuple[Clock, ...]:
        """Return the baseline's time by each clock that was read on it."""
        clocks = read_device(baseline, self.samples.baseline_ms, self.samples.baseline_timestamps)
        return (*clocks, self.controls.baseline[2]) if self.controls else clocks

    @property
    def notes(self) -> list[str]:
        """What a reader should know about clocks that disagreed."""
        if not self.again:
            return []
        if self.controls is None:
            return [f"the clocks agreed when measured again ({self.agreement.statement})"]
        clocks = f"({self.agreement.statement}; {self.controls.statement})"
        if self.agreement.agrees:
            return [f"the clocks disagree as much on the baseline or on a null kernel: CUDA events count {clocks}"]
        return [
            f"the clocks disagree on the candidate alone: {self.agreement.counts.name} counts, on both sides {clocks}"
        ]


class PairedMeasurement:
    """One candidate's measurement. It fills in a `TimingResult`."""

    def __init__(
        self,
        worker: WorkerSession,
        session: TimingSession,
        checker: AnswerChecker,
        result: TimingResult,
        latency: HostLatency,
        *,
        thorough: bool,
    ) -> None:
        self.worker, self.session, self.checker, self.result = worker, session, checker, result
        self.thorough = thorough
        self.baseline, self.latency = session.baseline, latency
        self.warmup_ms: list[float] = []
        """Time of each warm-up call of the candidate so far [ms]."""

    def run(self) -> None:
        """Warm up and measure. If the clocks disagree, measure once more when nobody else uses the GPU, and if they
        still do, look for the same on the baseline and on a null kernel."""
        before = read_gpu_state()
        if not self._warm_up():
            return
        measured = self._measure()
        if measured is None:
            return
        host_times = measure_host_times(self.worker, self.baseline, self.latency)
        if not measured.agreement.agrees:
            measured = self._measure_again()
        if measured is None:
            return
        self._conclude(measured, before, host_times)

    def _measure(self, *, again: bool = False) -> Measured | None:
        """Measure pairs and bursts once; None if an answer was wrong."""
        samples = PairedSamples(thorough=self.thorough)
        if not samples.collect(self._measure_block):
            return None
        launches = len(self.result.launches["launches"])
        bursts = measure_bursts(self.session, self.worker, samples, self._accept_burst, launches=launches, again=again)
        if bursts is None:
            return None
        return Measured(samples, bursts, self._compare_clocks(samples, bursts), again=again)

    def _measure_again(self) -> Measured | None:
        """Measure once more, and the controls if the clocks still disagree; None if that told nothing."""
        if self._is_disturbed():
            return None
        measured = self._measure(again=True)
        if measured is None or measured.agreement.agrees:
            return measured
        self.worker.ask("synchronize")
        self.worker.close()  # what it left running would disturb the controls, and so excuse it
        if self._is_disturbed():
            return None
        burst_calls = measured.bursts.without[0].calls
        controls = measure_controls(self.session, self.worker, measured.samples, burst_calls)
        harmless = controls.harmless(median(measured.samples.candidate_ms))
        agreement = self._compare_clocks(measured.samples, measured.bursts, harmless)
        return replace(measured, agreement=agreement, controls=controls)

    def _is_disturbed(self) -> bool:
        """Whether others keep on using the GPU; then the result says so."""
        self.result.skipped = interference.wait_until_idle(self.baseline.driver)
        return bool(self.result.skipped)

    def _warm_up(self) -> bool:
        """Run unrecorded blocks of both sides until the GPU is warm and the spin is settled.

        Returns:
            Whether all answers were right.
        """
        started, settled = time.monotonic(), False
        for number in range(MOST_WARMUP_BLOCKS):
            spent = time.monotonic() - started
            if number >= FEWEST_WARMUP_BLOCKS and settled and spent > WARMUP_SECONDS:
                break
            if number and spent > 3 * WARMUP_SECONDS:
                break
            block = self._measure_block()
            if block is None:
                return False
            if number or self.session.warmup_calls == 0:
                settled = self.session.adjust_spins(block) or settled
        return True

    def _measure_block(self) -> PairedBlock | None:
        """Measure one paired block and check its answers; None if something is wrong."""
        block = self.session.measure_block(self.worker)
        if not self.session.was_flushed:
            message = "the cache was not flushed before a timed call as the candidate's process was told"
            self.result.findings.append(Finding(kind="library_patched", message=message))
        self.warmup_ms += block.warmup_ms
        return block if self._accept(block.answers) and not self.result.findings else None

    def _accept_burst(self, forms: list[Any], count: int) -> bool:
        """Check the `count` answers of a burst, given structure and forms of each by the worker."""
        if len(forms) != count:
            message = "the process gave no readable answer"
            self.result.findings.append(Finding(kind="exited", message=message))
            return False
        return self._accept([self.session.answer(number, *form) for number, form in enumerate(forms)])

    def _accept(self, answers: Sequence[TimedAnswer]) -> bool:
        """Whether all answers are right; otherwise the findings say what is wrong and how it came about."""
        number, findings = self.checker.check_all(answers)
        self.result.check = self.checker.check
        if findings:
            explainer = WrongAnswerExplainer(self.worker, self.session, self.checker)
            self.result.findings += explainer.explain(answers, number, findings)
        return not findings

    def _compare_clocks(self, samples: PairedSamples, bursts: BurstPair, harmless: Excess = NO_EXCESS) -> Agreement:
        waits = bursts.host_bound or median(samples.queue_ms) > self.session.spin_ns / 1e6
        return compare_clocks(
            event_clock(samples.candidate_ms),
            device_clock(samples.timestamps, self.baseline.empty_ms, self.baseline.resolution_ns),
            host_clock(bursts.with_forward, bursts.without),
            launches=len(self.result.launches["launches"]),
            waits_ms=max(0.0, bursts.own_queue_ms) if waits else None,
            burst_calls=bursts.without[0].calls,
            harmless=harmless,
        )

    def _conclude(self, measured: Measured, before: GpuState, host_times: HostTimes) -> None:
        """Set the result's timing, or say why there is none."""
        samples, agreement = measured.samples, measured.agreement
        if agreement.understates:
            self._report_understatement(measured, before)
            return
        impossible = self.baseline.floor.check(agreement.counts.milliseconds)
        if impossible is not None:
            self.result.findings.append(impossible)
            return
        notes = [*measurement_notes(self.session, samples, self.warmup_ms), *self.checker.notes]
        self.result.timing = make_timing(
            samples, self.baseline, agreement.counts, measured.baseline_clocks(self.baseline), [*notes, *measured.notes]
        ).model_copy(
            update={
                "candidate_host_ms": host_times.candidate_ms,
                "baseline_host_ms": host_times.baseline_ms,
                "clocks": agreement.clocks,
                "checked_calls": self.checker.checked,
                "before": before,
                "after": read_gpu_state(),
            }
        )

    def _report_understatement(self, measured: Measured, before: GpuState) -> None:
        """Add the finding that CUDA events understate the time, unless others may have disturbed the clocks."""
        self.result.skipped = interference.find_disturbance(self.baseline.driver, before)
        if self.result.skipped:
            return
        controls = f" and not on others ({measured.controls.statement})" if measured.controls else ""
        message = (
            f"the clocks disagree twice ({measured.agreement.statement}){controls}: part of the work is done outside "
            "of what CUDA events see"
        )
        self.result.findings.append(Finding(kind="clock_disagreement", message=message))

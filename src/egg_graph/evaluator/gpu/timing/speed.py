"""From recorded calls to a `Timing` with its notes, and to the verdict on speed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from egg_graph.evaluator.device.stream_timer import flush_bytes
from egg_graph.evaluator.gpu.timing.agreement import tell
from egg_graph.evaluator.gpu.timing.baseline import PyTorchBaseline
from egg_graph.evaluator.gpu.timing.samples import CEILING_SECONDS, FEWEST_PAIRS, PairedSamples
from egg_graph.evaluator.gpu.timing.session import BLOCK_CALLS, TimingSession
from egg_graph.evaluator.gpu.timing.statistics import median, ratio_interval
from egg_graph.schema import Clock, Status, Timing
from egg_graph.schema.evaluation import RESOLUTION

AUDIT_RATIO = 10.0
"""Speedup above which a note asks for a human."""
SLOW_WARMUP_RATIO = 5.0
"""Ratio of warm-up calls to recorded calls above which a note says so."""


def make_timing(
    samples: PairedSamples,
    baseline: PyTorchBaseline,
    counts: Clock,
    baseline_clocks: Sequence[Clock],
    notes: Sequence[str],
) -> Timing:
    """Make the `Timing` of a candidate.

    Args:
        samples: recorded calls of both sides.
        baseline: PyTorch's forwards.
        counts: the candidate's time by the clock that counts; the ratio is formed within this clock.
        baseline_clocks: the baseline's time by every clock that was read on it, this one among them.
        notes: for readers.
    """
    ratio, low, high = ratio_interval(samples.candidate_ms, samples.baseline_ms, block=samples.block)
    baseline_ms = next(clock.milliseconds for clock in baseline_clocks if clock.name == counts.name)
    events_ratio = median(samples.baseline_ms) / median(samples.candidate_ms)
    correction = baseline_ms / counts.milliseconds / events_ratio  # 1 where events count
    best: Literal["eager", "compile"] = "compile" if baseline.best == "compile" else "eager"
    measured = {**baseline.milliseconds, best: baseline_ms}
    return Timing(
        candidate_ms=counts.milliseconds,
        eager_ms=measured["eager"],
        compile_ms=measured.get("compile"),
        eager_fp32_ms=baseline.eager_fp32_ms,
        baseline=best,
        clock=counts.name,
        ratio=ratio * correction,
        ratio_low=low * correction,
        ratio_high=high * correction,
        pairs=samples.pairs,
        block=samples.block,
        candidate_calls_ms=tuple(round(ms, 5) for ms in samples.candidate_ms),
        baseline_calls_ms=tuple(round(ms, 5) for ms in samples.baseline_ms),
        baseline_clocks=tuple(baseline_clocks),
        notes=tuple(notes),
    )


def measurement_notes(session: TimingSession, samples: PairedSamples, warmup_ms: Sequence[float]) -> list[str]:
    """Return what a reader of the `Timing` should know about how it was measured.

    Args:
        session: the buffers, and how many calls a block has.
        samples: recorded calls.
        warmup_ms: time of each of the candidate's warm-up calls [ms].
    """
    candidate_ms = median(samples.candidate_ms)
    notes = [
        *session.baseline.notes,
        *([session.input_sets.note] if session.input_sets.note else []),
        f"blocks of {session.block_calls} after {session.warmup_calls} unrecorded, in turns, either side first at "
        f"random; before every call the L2 cache is flushed ({flush_bytes() >> 20} MiB written) and the "
        "GPU kept busy until the forward is queued; every call has inputs of its own",
    ]
    if session.block_calls < BLOCK_CALLS:
        notes.append(f"memory (or time) allows {session.sets} sets of inputs at once")
    if samples.pairs < FEWEST_PAIRS and not samples.steady:
        notes.append(f"{samples.pairs} pairs alone: {CEILING_SECONDS:.0f} s were over")
    queue_ms = median(samples.queue_ms)
    if queue_ms > 2 * candidate_ms + 0.05:
        notes.append(
            f"by the host's clock a forward takes {queue_ms:.3f} ms to queue: launching costs more than the kernels"
        )
    if warmup_ms and median(warmup_ms) > SLOW_WARMUP_RATIO * candidate_ms + 0.1:
        notes.append(f"unrecorded calls take {median(warmup_ms):.3f} ms (median), far longer than recorded ones")
    if median(samples.baseline_ms) > AUDIT_RATIO * candidate_ms:
        notes.append(f"more than {AUDIT_RATIO:.0f} times as fast as PyTorch: a human should read this kernel")
    return notes


def is_disputed(timing: Timing) -> bool:
    """Whether the ratio is formed within another clock than CUDA events, which measured less of the candidate."""
    return timing.clock != "events"


def judge_speed(timing: Timing, precision: str) -> tuple[Status, str]:
    """Return status and reason: faster or slower only if the interval says so and the clocks agree."""
    baseline = "torch.compile" if timing.baseline == "compile" else "PyTorch eager"
    baseline_ms = timing.compile_ms if timing.baseline == "compile" else timing.eager_ms
    status: Status = "inconclusive"
    if timing.ratio_low > 1 + RESOLUTION:
        status = "faster"
    elif timing.ratio_high < 1 - RESOLUTION:
        status = "slower"
    doubt = ""
    if is_disputed(timing):
        status = "slower" if status == "slower" else "inconclusive"
        doubt = f"; the clocks disagree ({tell(timing.clocks)}), the largest counts on both sides"
    return status, (
        f"{timing.ratio:.2f}x (95 % interval {timing.ratio_low:.2f} to {timing.ratio_high:.2f}, {timing.pairs} pairs) "
        f"against {baseline} at {precision}: {timing.candidate_ms:.4g} ms against {baseline_ms:.4g} ms{doubt}"
    )

"""Trace a finalist on the device and judge what the trace adds to what its own process recorded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from egg_graph.evaluator.device.access import GpuAccess
from egg_graph.evaluator.evidence.builder import EvaluationBuilder, stopwatch
from egg_graph.evaluator.evidence.rungs import RungName
from egg_graph.evaluator.host.fork_server import ForkServer
from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.tools.device_trace import DeviceTrace, trace_forward
from egg_graph.schema import Finding, Integrity, KernelTask

RUNG: RungName = "device_trace"
LONGER_IN_TRACE, SLACK_MS = 1.5, 0.05
"""Largest factor and slack [ms] by which the device may be busy for longer than the timed call took. Beyond them it did
work that the timing did not see."""


def judge_trace(
    task: KernelTask, integrity: Integrity, trace: DeviceTrace, timed_ms: float | None
) -> tuple[Integrity, list[Finding]]:
    """Judge a trace beside what the candidate's process recorded.

    Args:
        task: says whether kernels other than Triton's may compute.
        integrity: of the recorded forward.
        trace: of one forward.
        timed_ms: time of a timed call [ms]; None if nothing was timed.

    Returns:
        The integrity with the foreign kernels of the trace, and the findings.
    """
    foreign = [row.name for row in trace.foreign]
    integrity = integrity.model_copy(
        update={"foreign_kernels": tuple(dict.fromkeys([*integrity.foreign_kernels, *foreign]))}
    )
    if not trace.own:
        message = "the device ran none of the candidate's Triton kernels"
        return integrity, [Finding(kind="no_triton_kernel", message=message, where=_list_names(foreign))]
    if task.triton_only and foreign:
        message = f"the task allows Triton kernels only, but the device ran {_list_names(foreign)}"
        return integrity, [Finding(kind="library_call", message=message, cure="compute this in a Triton kernel too")]
    if timed_ms is not None and trace.busy_ms > LONGER_IN_TRACE * timed_ms + SLACK_MS:
        message = f"one forward keeps the device busy for {trace.busy_ms:.3f} ms, but was timed at {timed_ms:.3f}"
        return integrity, [Finding(kind="clock_disagreement", message=message)]
    return integrity, []


def trace_candidate(
    fork_server: ForkServer,
    access: GpuAccess,
    problem: Problem,
    case: Case,
    folder: Path,
    builder: EvaluationBuilder,
) -> DeviceTrace | None:
    """Add the rung `device_trace`; returns the trace if there is one.

    Args:
        fork_server: forks the job.
        access: the judge's turns on the GPU.
        problem: the task.
        case: at full shape; its forward is traced.
        folder: holds the candidate and what it has compiled.
        builder: gets the rung, the findings, the integrity and the share of the candidate's own kernels.
    """
    with stopwatch() as took:
        traced = trace_forward(fork_server, access, problem, case, folder)
    if isinstance(traced, str):
        builder.skipped(RUNG, f"the device was not traced: {traced}", took[0])
        return None
    timed_ms = builder.timing.candidate_ms if builder.timing is not None else None
    builder.integrity, findings = judge_trace(problem.task, builder.integrity or Integrity(), traced, timed_ms)
    if findings:
        builder.fail(RUNG, findings, took[0])
        return traced
    builder.triton_share = round(traced.own_share, 4)
    others = [row.name for row in traced.rows if row not in traced.own]
    beside = f"; beside them {_list_names(others)}" if others else ""
    plural = "s" if traced.streams > 1 else ""
    builder.passed(
        RUNG,
        f"{traced.own_share:.0%} of the device's time in one forward is the candidate's own kernels "
        f"({_list_names([row.name for row in traced.own])}), on {traced.streams} stream{plural}{beside}",
        took[0],
    )
    return traced


def _list_names(names: Sequence[str]) -> str:
    short = [name if len(name) <= 60 else name[:57] + "..." for name in names[:4]]
    return ", ".join(short) + (f" and {len(names) - 4} more" if len(names) > 4 else "")

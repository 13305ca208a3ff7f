"""Profile a kernel that passed: with Nsight Compute, else by a device trace, else from what the compiler tells.

`Profile.source` says which of them it was, and `Profile.why` says why it was nothing better. Nothing here changes a
verdict, and no time measured here is a score.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from egg_graph.evaluator.device import ncu
from egg_graph.evaluator.evidence.builder import EvaluationBuilder, stopwatch
from egg_graph.evaluator.host.fork_server import ForkServer, Limits
from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.tools.compiled_metrics import metrics_of, profile_from_compiler
from egg_graph.evaluator.tools.device_trace import trace_forward
from egg_graph.evaluator.tools.job_files import read_start, read_steps, tell_steps, why_too_large, write_case
from egg_graph.evaluator.tools.metrics import profile_from_ncu, profile_from_trace
from egg_graph.evaluator.worker.profile_job import REPORT, STEPS
from egg_graph.schema import StageName

PROFILE_SECONDS = 40.0
"""Time limit of the profiler [s]. Most of it is the start of a process; a GPU that lacks a metric needs two starts."""


def profile_candidate(
    fork_server: ForkServer,
    problem: Problem,
    case: Case,
    folder: Path,
    builder: EvaluationBuilder,
    stage: StageName | None,
) -> None:
    """Add the rung `profile` and the stage's metrics.

    Args:
        fork_server: forks the jobs.
        problem: the task.
        case: at full shape; its forward is profiled.
        folder: holds the candidate and what it has compiled.
        builder: gets the rung and the profile; its resources name the candidate's kernels.
        stage: selects the metrics; None selects those of all stages.
    """
    if why := why_too_large(case):
        skip_profile(builder, stage, problem, why)
        return
    with stopwatch() as took:
        why = _profile_with_ncu(fork_server, problem, case, folder, builder, stage)
    if not why:
        statement = (
            f"one steady-state forward profiled with Nsight Compute; metrics are those of {builder.profile.kernel} "
            f"({tell_steps(read_steps(folder / STEPS))}, {took[0]:.1f} s in all)"
        )
        builder.passed("profile", statement, took[0])
        return
    with stopwatch() as took_trace:
        traced = trace_forward(fork_server, problem, case, folder)
    if isinstance(traced, str) or not traced.own:
        why_no_trace = traced if isinstance(traced, str) else "the trace holds none of the candidate's kernels"
        skip_profile(
            builder, stage, problem, f"{why}; nor was the device traced: {why_no_trace}", took[0] + took_trace[0]
        )
        return
    builder.profile = profile_from_trace(traced, builder.resources, stage, problem.task.target, why)
    builder.passed(
        "profile",
        f"one forward traced on the device: durations and launches; no hardware counters: {why}",
        took[0] + took_trace[0],
    )


def skip_profile(
    builder: EvaluationBuilder, stage: StageName | None, problem: Problem, why: str, seconds: float = 0.0
) -> None:
    """Add a skipped rung `profile`; the metrics are those that the compiler tells."""
    builder.skipped("profile", f"not profiled: {why}", seconds)
    builder.profile = profile_from_compiler(builder.resources, stage, problem.task.target, why)


def _profile_with_ncu(
    fork_server: ForkServer,
    problem: Problem,
    case: Case,
    folder: Path,
    builder: EvaluationBuilder,
    stage: StageName | None,
) -> str:
    """Profile with Nsight Compute; returns why there is no profile, empty if there is one."""
    if shutil.which("ncu") is None:
        return "ncu is not on the PATH"
    names = sorted({r.kernel for r in builder.resources})
    payload = write_case(problem, case, folder, kernels=names, metrics=metrics_of(stage))
    limits = Limits(wall_seconds=PROFILE_SECONDS, memory_bytes=None, tools=True)
    end = fork_server.run("egg_graph.evaluator.worker.profile_job:run", payload, folder, limits)
    report = read_start(folder / REPORT)
    if ncu.DENIED in report or ncu.DENIED in end.log:
        return f"this machine denies the GPU's counters to its users ({ncu.DENIED})"
    if end.cause == "timeout":
        return f"Nsight Compute was not done within {PROFILE_SECONDS:.0f} s ({tell_steps(read_steps(folder / STEPS))})"
    absent = (end.report or {}).get("answer", {}).get("absent", ())
    own_share = 1.0 if builder.triton_share is None else builder.triton_share
    found = profile_from_ncu(report, stage, own=names, absent=tuple(absent), own_share=own_share)
    if found is None:
        words = " ".join((ncu.complaints(report) or end.log[-200:]).split())
        return f"ncu gave no table of the candidate's kernels ({end.cause} {end.code}): {words}"
    builder.profile = found
    return ""

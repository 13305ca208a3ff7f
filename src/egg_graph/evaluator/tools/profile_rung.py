"""Profile a kernel that passed: with Nsight Compute, else by a device trace, else from what the compiler tells.

`Profile.source` says which of them it was, and `Profile.why` says why it was nothing better. Nothing here changes a
verdict, and no time measured here is a score.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection

from egg_graph.evaluator.device import ncu
from egg_graph.evaluator.device.access import GpuAccess
from egg_graph.evaluator.evidence.builder import EvaluationBuilder, stopwatch
from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.tools.compiled_metrics import profile_from_compiler
from egg_graph.evaluator.tools.device_trace import trace_forward
from egg_graph.evaluator.tools.job_files import read_start, read_steps, tell_steps, why_too_large, write_case
from egg_graph.evaluator.tools.metrics import profile_from_ncu, profile_from_trace
from egg_graph.evaluator.tools.waiting_profiler import PROFILE_SECONDS, WaitingProfiler
from egg_graph.evaluator.worker.profile_job import LOG, REPORT, STEPS
from egg_graph.schema import StageName


def profile_candidate(
    profiler: WaitingProfiler, access: GpuAccess, problem: Problem, case: Case, builder: EvaluationBuilder
) -> None:
    """Add the rung `profile` and the stage's metrics.

    The GPU is held alone only while the candidate runs: the profiler starts, and loads it, before that.

    Args:
        profiler: of the candidate; started ahead or not.
        access: the judge's turns on the GPU.
        problem: the task.
        case: at full shape; its forward is profiled.
        builder: gets the rung and the profile; its resources name the candidate's kernels.
    """
    stage, folder = profiler.stage, profiler.folder
    if why := why_too_large(case):
        skip_profile(builder, stage, problem, why)
        return
    own = {resource.kernel for resource in builder.resources}
    profiler.make_ready(own)
    with access.at_full_shape():
        with access.computing():
            profiler.load(write_case(problem, case, folder))
        with access.measuring():
            with stopwatch() as took:
                why = _profile_with_ncu(profiler, own, builder)
            if not why:
                statement = (
                    f"one steady-state forward profiled with Nsight Compute; metrics are those of "
                    f"{builder.profile.kernel} ({tell_steps(read_steps(folder / STEPS))}, {took[0]:.1f} s in all)"
                )
                builder.passed("profile", statement, took[0])
                return
            with stopwatch() as took_trace:
                traced = trace_forward(profiler.fork_server, access, problem, case, folder)
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


def _profile_with_ncu(profiler: WaitingProfiler, own: Collection[str], builder: EvaluationBuilder) -> str:
    """Profile with Nsight Compute; returns why there is no profile, empty if there is one."""
    if shutil.which("ncu") is None:
        return "ncu is not on the PATH"
    end = profiler.go()
    report, log = (read_start(profiler.folder / name) for name in (REPORT, LOG))
    if ncu.DENIED in report or ncu.DENIED in log:
        return f"this machine denies the GPU's counters to its users ({ncu.DENIED})"
    if end.cause == "timeout":
        steps = tell_steps(read_steps(profiler.folder / STEPS))
        return f"Nsight Compute was not done within {PROFILE_SECONDS:.0f} s ({steps})"
    absent = (end.report or {}).get("answer", {}).get("absent", ())
    own_share = 1.0 if builder.triton_share is None else builder.triton_share
    found = profile_from_ncu(report, profiler.stage, own=own, absent=tuple(absent), own_share=own_share)
    if found is None:
        words = " ".join((ncu.complaints(report) or f"{log[-200:]} {end.log[-200:]}").split())
        return f"ncu gave no table of the candidate's kernels ({end.cause} {end.code}): {words}"
    builder.profile = found
    return ""

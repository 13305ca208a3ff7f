"""The profiling rung, of a kernel that passed: Nsight Compute, else a trace of the device, else the compiler's figures.

Which of them it was, and why nothing better, is told in `Profile.source` and `Profile.why`. Nothing here changes a
verdict, and no time seen here is a score.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from egg_graph.evaluator.device import ncu
from egg_graph.evaluator.evidence.builder import EvaluationBuilder, stopwatch
from egg_graph.evaluator.host.fork_server import ForkServer, Limits
from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.tools import job_payload
from egg_graph.evaluator.tools.device_trace import take_trace
from egg_graph.evaluator.tools.metrics import compiled_profile, metrics_of, parse_ncu, traced_profile
from egg_graph.evaluator.worker.profile_job import REPORT
from egg_graph.schema import StageName

PROFILE_SECONDS = 40.0
"""Most of it is the start of a process under the profiler; a second start where the GPU lacks some metric."""
LARGEST_REPORT = 4 << 20
"""Bytes of a report that are read; what a candidate adds to it is data and no more."""


def profile(
    fork_server: ForkServer,
    problem: Problem,
    case: Case,
    folder: Path,
    builder: EvaluationBuilder,
    stage: StageName | None,
) -> None:
    """Add the profiling rung and the stage's metrics. `folder` holds the candidate and what it has compiled."""
    if why := job_payload.too_large(case):
        not_profiled(builder, stage, why)
        return
    with stopwatch() as took:
        why = _with_ncu(fork_server, problem, case, folder, builder, stage)
    if not why:
        statement = (
            f"one steady-state forward profiled with Nsight Compute; metrics are those of {builder.profile.kernel}"
        )
        builder.passed("profile", statement, took[0])
        return
    with stopwatch() as traced:
        found = take_trace(fork_server, problem, case, folder)
    if isinstance(found, str) or not found.own:
        none = found if isinstance(found, str) else "the trace holds none of the candidate's kernels"
        not_profiled(builder, stage, f"{why}; nor was the device traced: {none}", took[0] + traced[0])
        return
    builder.profile = traced_profile(found, builder.resources, stage, why)
    builder.passed(
        "profile",
        f"one forward traced on the device: durations and launches; no hardware counters: {why}",
        took[0] + traced[0],
    )


def not_profiled(builder: EvaluationBuilder, stage: StageName | None, why: str, seconds: float = 0.0) -> None:
    """The compiler's figures stand in, and say why."""
    builder.skipped("profile", f"not profiled: {why}", seconds)
    builder.profile = compiled_profile(builder.resources, stage, why)


def _with_ncu(
    fork_server: ForkServer,
    problem: Problem,
    case: Case,
    folder: Path,
    builder: EvaluationBuilder,
    stage: StageName | None,
) -> str:
    """Run the profiler; empty, or why there is no profile."""
    if shutil.which("ncu") is None:
        return "ncu is not on the PATH"
    names = sorted({r.kernel for r in builder.resources})
    payload = job_payload.hand_over(problem, case, folder, kernels=names, metrics=metrics_of(stage))
    limits = Limits(wall_seconds=PROFILE_SECONDS, memory_bytes=None, tools=True)
    end = fork_server.run("egg_graph.evaluator.worker.profile_job:run", payload, folder, limits)
    report = _read(folder / REPORT)
    if ncu.DENIED in report or ncu.DENIED in end.log:
        return f"this machine denies the GPU's counters to its users ({ncu.DENIED})"
    if end.cause == "timeout":
        return f"Nsight Compute was not done within {PROFILE_SECONDS:.0f} s"
    absent = (end.report or {}).get("answer", {}).get("absent", ())
    whole = 1.0 if builder.triton_share is None else builder.triton_share
    found = parse_ncu(report, stage, own=names, absent=tuple(absent), whole=whole)
    if found is None:
        words = " ".join((ncu.complaints(report) or end.log[-200:]).split())
        return f"ncu gave no table of the candidate's kernels ({end.cause} {end.code}): {words}"
    builder.profile = found
    return ""


def _read(path: Path) -> str:
    if not path.exists():
        return ""
    with path.open(errors="replace") as file:
        return file.read(LARGEST_REPORT)

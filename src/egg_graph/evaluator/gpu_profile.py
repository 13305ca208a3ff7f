"""The profiling rung: Nsight Compute on one more forward, or what the compiler alone tells, with the reason."""

from __future__ import annotations

import shutil
from pathlib import Path

from egg_graph.evaluator import exchange
from egg_graph.evaluator.docket import Docket
from egg_graph.evaluator.evidence import Climb, stopwatch
from egg_graph.evaluator.nursery import Limits, Nursery
from egg_graph.evaluator.precision import CAST
from egg_graph.evaluator.problem import Case
from egg_graph.evaluator.profile import compiled_profile, metrics_of, parse_ncu
from egg_graph.evaluator.profile_job import LARGEST_INPUT, REPORT
from egg_graph.evaluator.surroundings import clean_environment
from egg_graph.schema import StageName

PROFILE_SECONDS = 20.0
"""Most of it is the start of a process under the profiler."""


def profile(nursery: Nursery, docket: Docket, case: Case, folder: Path, climb: Climb, stage: StageName | None) -> None:
    """Add the profiling rung and the stage's metrics. `folder` holds the candidate and what it has compiled."""
    with stopwatch() as took:
        problem = _unprofilable(case) or _profiled(nursery, docket, case, folder, climb, stage)
    if problem:
        not_profiled(climb, stage, problem, took[0])
    else:
        climb.passed("profile", "one steady-state forward profiled with Nsight Compute", took[0])


def not_profiled(climb: Climb, stage: StageName | None, why: str, seconds: float = 0.0) -> None:
    """The compiler's figures stand in, and say why."""
    climb.skipped("profile", f"not profiled: {why}", seconds)
    climb.profile = compiled_profile(climb.resources, stage, why)


def _unprofilable(case: Case) -> str:
    if shutil.which("ncu") is None:
        return "ncu is not on the PATH"
    if case.nbytes > LARGEST_INPUT:
        return f"inputs and outputs of {case.nbytes >> 20} MiB are too large to hand to the profiler"
    return ""


def _profiled(nursery: Nursery, docket: Docket, case: Case, folder: Path, climb: Climb, stage: StageName | None) -> str:
    """Run the profiler; empty, or why there is no profile."""
    exchange.save(folder, "state", list(case.state.values()))
    exchange.save(folder, "inputs", case.inputs)
    dtype = CAST.get(docket.task.precision)
    payload = {
        "arguments": docket.arguments(case.overrides),
        "dtype": None if dtype is None else str(dtype).removeprefix("torch."),
        "state": list(case.state),
        "kernels": "|".join(sorted({r.kernel for r in climb.resources})),
        "metrics": metrics_of(stage),
        "python_path": clean_environment()["PYTHONPATH"],
    }
    limits = Limits(wall_seconds=PROFILE_SECONDS, memory_bytes=None)
    end = nursery.run("egg_graph.evaluator.profile_job:run", payload, folder, limits)
    if end.cause == "timeout":
        return f"Nsight Compute was not done within {PROFILE_SECONDS:.0f} s"
    table = folder / REPORT
    found = parse_ncu(table.read_text(errors="replace"), stage) if table.exists() else None
    if found is None:
        return f"ncu gave no table ({end.cause} {end.code}): {end.log[-200:]}"
    climb.profile = found
    return ""

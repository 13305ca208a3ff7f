"""The sanitizer's rung, for finalists: memory, races and initialisation, watched by NVIDIA's compute-sanitizer.

At a reduced shape, since every access is instrumented; and only the candidate's own kernels are judged.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from egg_graph.evaluator.evidence.builder import EvaluationBuilder, stopwatch
from egg_graph.evaluator.evidence.rungs import RungName
from egg_graph.evaluator.host.fork_server import ForkServer, Limits
from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.tools import handover, sanitizer
from egg_graph.evaluator.tools.sanitizer import TOOLS, Tool
from egg_graph.evaluator.worker.sanitize_job import PROGRAM, REPORT
from egg_graph.schema import Finding

RUNG: RungName = "sanitizer"
SECONDS: dict[Tool, float] = {"memcheck": 60.0, "racecheck": 90.0, "initcheck": 60.0}
"""Six to twelve each on a small program; the compiler of a larger kernel takes its time under the tool."""
LARGEST_REPORT = 4 << 20
PROVEN: dict[Tool, str] = {
    "memcheck": "no access out of bounds or misaligned",
    "racecheck": "no race in shared memory",
    "initcheck": "no read of what nobody wrote",
}


@dataclass(frozen=True)
class Watched:
    """What one tool established."""

    tool: Tool
    findings: tuple[Finding, ...] = ()
    others: int = 0
    """Complaints about kernels that are not the candidate's."""
    why: str = ""
    """Why it established nothing; empty if it did."""


def sanitize(fork_server: ForkServer, problem: Problem, case: Case, folder: Path, builder: EvaluationBuilder) -> None:
    """Add the rung "sanitizer".

    Args:
        fork_server: forks the jobs.
        problem: of the task.
        case: at a reduced shape, e.g. `problem.cases("shrunk")[0]`.
        folder: holds the candidate, and what it has compiled.
        builder: gets the findings; its resources name the candidate's kernels.
    """
    own = {resource.kernel for resource in builder.resources}
    why = "" if shutil.which(PROGRAM) else f"{PROGRAM} is not on the PATH"
    why = why or handover.too_large(case) or ("" if own else "its kernels are not known")
    if why:
        builder.skipped(RUNG, f"not run under compute-sanitizer: {why}")
        return
    with stopwatch() as took, ThreadPoolExecutor(len(TOOLS)) as pool:
        watched = list(pool.map(lambda tool: _watch(fork_server, problem, case, folder, own, tool), TOOLS))
    findings = [finding for one in watched for finding in one.findings]
    if findings:
        builder.fail(RUNG, findings, took[0])
        return
    done = [one for one in watched if not one.why]
    missed = "; ".join(f"{one.tool} told nothing: {one.why}" for one in watched if one.why)
    if not done:
        builder.skipped(RUNG, f"not run under compute-sanitizer: {missed}", took[0])
        return
    builder.passed(RUNG, f"{_proven(done)} at {case.name} shape under compute-sanitizer", took[0])
    if missed:
        builder.skipped("sanitizer_rest", missed)


def _proven(done: Sequence[Watched]) -> str:
    others = sum(one.others for one in done)
    beside = f" ({others} complaints about library kernels are theirs)" if others else ""
    return ", ".join(PROVEN[one.tool] for one in done) + f" in the candidate's kernels{beside}"


def _watch(fork_server: ForkServer, problem: Problem, case: Case, folder: Path, own: set[str], tool: Tool) -> Watched:
    """One tool, in a job folder of its own inside the candidate's."""
    room = folder / f"sanitizer-{tool}"
    room.mkdir(exist_ok=True)
    shutil.copyfile(folder / "candidate.py", room / "candidate.py")
    if (folder / "triton").is_dir():
        shutil.copytree(folder / "triton", room / "triton", dirs_exist_ok=True)
    payload = handover.hand_over(problem, case, room, tool=tool)
    limits = Limits(wall_seconds=SECONDS[tool], memory_bytes=None, tools=True)
    end = fork_server.run("egg_graph.evaluator.worker.sanitize_job:run", payload, room, limits)
    report = room / REPORT
    text = report.read_bytes()[:LARGEST_REPORT].decode(errors="replace") if report.exists() else ""
    findings, others = sanitizer.judge(tool, text, own)
    if findings or sanitizer.finished(text):
        return Watched(tool, tuple(findings), others)
    if end.cause == "timeout":
        return Watched(tool, why=f"it was not done within {SECONDS[tool]:.0f} s")
    words = " ".join((text[-200:] + " " + end.log[-200:]).split())
    return Watched(tool, why=f"it ended with {end.cause} {end.code}: {words}")

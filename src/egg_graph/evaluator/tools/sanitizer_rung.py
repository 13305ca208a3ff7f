"""Run a finalist under NVIDIA's compute-sanitizer: memory accesses, races in shared memory, initialisation.

The shape is a reduced one, because every access is instrumented. Only the candidate's own kernels are judged.
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
from egg_graph.evaluator.tools import job_payload, sanitizer_report
from egg_graph.evaluator.tools.sanitizer_report import TOOLS, Tool
from egg_graph.evaluator.worker.sanitize_job import PROGRAM, REPORT
from egg_graph.schema import Finding

RUNG: RungName = "sanitizer"
SECONDS: dict[Tool, float] = {"memcheck": 60.0, "racecheck": 90.0, "initcheck": 60.0}
"""Time limit of each tool [s]. A small program takes 6 to 12 s; a larger kernel compiles slowly under the tool."""
LARGEST_REPORT = 4 << 20
"""How much of a report is read [bytes]."""
PROVEN: dict[Tool, str] = {
    "memcheck": "no access out of bounds or misaligned",
    "racecheck": "no race in shared memory",
    "initcheck": "no read of what nobody wrote",
}
"""What a tool proves when it finds nothing."""


@dataclass(frozen=True)
class ToolResult:
    """What one tool established."""

    tool: Tool
    findings: tuple[Finding, ...] = ()
    others: int = 0
    """Number of complaints about kernels that are not the candidate's."""
    why: str = ""
    """Why it established nothing; empty if it did."""


def sanitize_candidate(
    fork_server: ForkServer, problem: Problem, case: Case, folder: Path, builder: EvaluationBuilder
) -> None:
    """Add the rung `sanitizer`.

    Args:
        fork_server: forks the jobs.
        problem: the task.
        case: at a reduced shape, e.g. `problem.cases("shrunk")[0]`.
        folder: holds the candidate and what it has compiled.
        builder: gets the findings; its resources name the candidate's kernels.
    """
    own = {resource.kernel for resource in builder.resources}
    why = "" if shutil.which(PROGRAM) else f"{PROGRAM} is not on the PATH"
    why = why or job_payload.why_too_large(case) or ("" if own else "its kernels are not known")
    if why:
        builder.skipped(RUNG, f"not run under compute-sanitizer: {why}")
        return
    with stopwatch() as took, ThreadPoolExecutor(len(TOOLS)) as pool:
        results = list(pool.map(lambda tool: _run_tool(fork_server, problem, case, folder, own, tool), TOOLS))
    findings = [finding for result in results for finding in result.findings]
    if findings:
        builder.fail(RUNG, findings, took[0])
        return
    done = [result for result in results if not result.why]
    missed = "; ".join(f"{result.tool} told nothing: {result.why}" for result in results if result.why)
    if not done:
        builder.skipped(RUNG, f"not run under compute-sanitizer: {missed}", took[0])
        return
    builder.passed(RUNG, f"{_describe_proof(done)} at {case.name} shape under compute-sanitizer", took[0])
    if missed:
        builder.skipped("sanitizer_rest", missed)


def _describe_proof(results: Sequence[ToolResult]) -> str:
    others = sum(result.others for result in results)
    beside = f" ({others} complaints about library kernels are theirs)" if others else ""
    return ", ".join(PROVEN[result.tool] for result in results) + f" in the candidate's kernels{beside}"


def _run_tool(
    fork_server: ForkServer, problem: Problem, case: Case, folder: Path, own: set[str], tool: Tool
) -> ToolResult:
    """Run one tool, in a job folder of its own inside the candidate's folder."""
    job = folder / f"sanitizer-{tool}"
    job.mkdir(exist_ok=True)
    shutil.copyfile(folder / "candidate.py", job / "candidate.py")
    if (folder / "triton").is_dir():
        shutil.copytree(folder / "triton", job / "triton", dirs_exist_ok=True)
    payload = job_payload.write_case(problem, case, job, tool=tool)
    limits = Limits(wall_seconds=SECONDS[tool], memory_bytes=None, tools=True)
    end = fork_server.run("egg_graph.evaluator.worker.sanitize_job:run", payload, job, limits)
    report = job / REPORT
    text = report.read_bytes()[:LARGEST_REPORT].decode(errors="replace") if report.exists() else ""
    findings, others = sanitizer_report.judge_report(tool, text, own)
    if findings or sanitizer_report.is_complete(text):
        return ToolResult(tool, tuple(findings), others)
    if end.cause == "timeout":
        return ToolResult(tool, why=f"it was not done within {SECONDS[tool]:.0f} s")
    words = " ".join((text[-200:] + " " + end.log[-200:]).split())
    return ToolResult(tool, why=f"it ended with {end.cause} {end.code}: {words}")

"""Run a finalist under NVIDIA's compute-sanitizer: memory accesses, races in shared memory, initialisation.

The shape is a reduced one, because every access is instrumented. Only the candidate's own kernels are judged. A tool
counts as done if it ended in time, the candidate's forwards ran under it, and it reported the fault that was planted
behind them (`worker.planted_fault`); of any other tool the rung says why it told nothing.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from egg_graph.evaluator.device.access import GpuAccess
from egg_graph.evaluator.evidence.builder import EvaluationBuilder, stopwatch
from egg_graph.evaluator.evidence.rungs import RungName
from egg_graph.evaluator.host.environment import clean_environment
from egg_graph.evaluator.host.fork_server import ChildExit, ForkServer
from egg_graph.evaluator.problem.case import Case, Unevaluable
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.spending import spending_on
from egg_graph.evaluator.tools import sanitizer_report
from egg_graph.evaluator.tools.job_files import read_start, read_steps, tell_steps, why_too_large, write_case
from egg_graph.evaluator.tools.sanitizer_report import PLANTED, TOOLS, Tool
from egg_graph.evaluator.tools.waiting_job import WaitingJob
from egg_graph.evaluator.worker.sanitize_job import (
    LAST_STEP,
    PROGRAM,
    loaded_of,
    log_of,
    ready_of,
    report_of,
    steps_of,
)
from egg_graph.schema import Finding

RUNG: RungName = "sanitizer"
SECONDS = 10.0
"""Time limit of the tools, which run side by side, from the go [s]."""
SLACK = 5.0
"""Time that their job may take beside them [s]."""
SHAPES = ("awkward", "shrunk")
"""Shapes to run at, the first that the problem has: what runs at the awkward one was compiled when it was compared."""
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
    steps: str = ""
    """When the watched program had done what."""


class WaitingSanitizer(WaitingJob):
    """The tools for the candidate in a folder.

    Args:
        fork_server, folder: as for `WaitingJob`.
    """

    def __init__(self, fork_server: ForkServer, folder: Path) -> None:
        job = "egg_graph.evaluator.worker.sanitize_job:run"
        ready, loaded = [ready_of(tool) for tool in TOOLS], [loaded_of(tool) for tool in TOOLS]
        super().__init__(fork_server, folder, job, ready, SECONDS + SLACK, loaded=loaded)
        self.own: frozenset[str] = frozenset()
        """Names of the candidate's kernels; others may be among them that never run."""

    def start(self, own: Collection[str]) -> None:
        """Start the tools, which then wait; nothing where there are none, or no kernels are named."""
        self.own = frozenset(own)
        if shutil.which(PROGRAM) is None or not own:
            return
        kernels, python_path = [*sorted(own), PLANTED], clean_environment()["PYTHONPATH"]
        self.launch({"tools": TOOLS, "kernels": kernels, "seconds": SECONDS, "python_path": python_path})


def sanitize_candidate(
    sanitizer: WaitingSanitizer, access: GpuAccess, problem: Problem, builder: EvaluationBuilder
) -> None:
    """Add the rung `sanitizer`, and `sanitizer_rest` with the tools that told nothing.

    They run the forwards alone on the GPU: beside others these take many times as long, and what one of them has queued
    there may end only if it goes on. They load the candidate beside others.

    Args:
        sanitizer: of the candidate; started ahead or not.
        access: the judge's turns on the GPU.
        problem: the task.
        builder: gets the rungs.
    """
    case = _small_case(problem)
    if why := case if isinstance(case, str) else _why_not(sanitizer):
        skip_sanitizer(builder, why)
        return
    assert isinstance(case, Case)
    if not sanitizer.waits:
        sanitizer.start(sanitizer.own)
    sanitizer.wait_until_ready()
    with access.computing():
        payload = write_case(problem, case, sanitizer.folder)
        with spending_on("sanitizer"):
            sanitizer.load(payload)
    with access.measuring(), spending_on("sanitizer"), stopwatch() as took:
        end = sanitizer.go()
    library = builder.integrity.computing if builder.integrity is not None else ()
    results = [without_unseen_writes(_result_of(tool, end, sanitizer.folder, sanitizer.own), library) for tool in TOOLS]
    findings = [finding for result in results for finding in result.findings]
    if findings:
        builder.fail(RUNG, findings, took[0])
        return
    done = [result for result in results if not result.why]
    missed = "; ".join(f"{result.tool}: {result.why}" for result in results if result.why)
    if not done:
        skip_sanitizer(builder, missed, took[0])
        return
    builder.passed(RUNG, f"{_describe_proof(done)} at {case.name} shape under compute-sanitizer", took[0])
    if missed:
        builder.skipped("sanitizer_rest", missed)


def without_unseen_writes(result: ToolResult, library: Sequence[str]) -> ToolResult:
    """The result of a tool, without reads of what a library's kernel may have written.

    Initcheck does not see what some kernels of cuBLAS store: it held a copy of a linear layer's answer, in bounds, for
    a read of what nobody wrote (H200, driver 580). Memory that nobody writes is filled with NaN wherever answers are
    compared, and that tells such reads as well.

    Args:
        result: of one tool.
        library: operators of PyTorch that compute in the candidate's forward.
    """
    if result.tool != "initcheck" or not result.findings or not library:
        return result
    named = f"{result.findings[0].where}; it may not see what {', '.join(library)} wrote"
    return ToolResult(result.tool, others=result.others, why=f"{result.findings[0].message} ({named})")


def _why_not(sanitizer: WaitingSanitizer) -> str:
    """Why there is nothing for the tools to do; empty if there is."""
    if shutil.which(PROGRAM) is None:
        return f"{PROGRAM} is not on the PATH"
    return "" if sanitizer.own else "its kernels are not known"


def skip_sanitizer(builder: EvaluationBuilder, why: str, seconds: float = 0.0) -> None:
    """Add a skipped rung `sanitizer`."""
    builder.skipped(RUNG, f"not run under compute-sanitizer: {why}", seconds)


def _small_case(problem: Problem) -> Case | str:
    """The case to run; why there is none as text."""
    name = next((name for name in SHAPES if name in problem.shapes), "")
    if not name:
        return "the task has no reduced shape"
    try:
        case = problem.cases(name)[0]
    except Unevaluable as error:
        return f"the {name} shape cannot be judged: {error}"
    return why_too_large(case) or case


def _describe_proof(results: Sequence[ToolResult]) -> str:
    others = sum(result.others for result in results)
    beside = f" ({others} complaints about library kernels are theirs)" if others else ""
    proofs = ", ".join(f"{PROVEN[result.tool]} ({result.tool}: {result.steps})" for result in results)
    return f"{proofs} in the candidate's kernels{beside}"


def _result_of(tool: Tool, end: ChildExit, folder: Path, own: Collection[str]) -> ToolResult:
    """Read what one tool left behind. The job runs the candidate's code, so all of it is data that may be anything."""
    text = read_start(report_of(folder, tool))
    findings, others = sanitizer_report.judge_report(tool, text, own)
    if findings:
        return ToolResult(tool, tuple(findings), others)
    status, steps = _status(end, tool), read_steps(steps_of(folder, tool))
    last_words = " ".join((text[-200:] + " " + read_start(log_of(folder, tool))[-300:]).split())
    if status is None:
        return ToolResult(tool, why=f"not done in {SECONDS:.0f} s ({tell_steps(steps)})")
    if not sanitizer_report.is_complete(text):
        return ToolResult(tool, why=f"it ended with {status} and no summary: {last_words}")
    if LAST_STEP not in steps:
        return ToolResult(tool, why=f"the candidate's forwards did not end under it: {last_words}")
    if not sanitizer_report.saw_planted(text):
        return ToolResult(tool, why=f"it did not see a fault that was planted for it: {last_words}")
    return ToolResult(tool, others=others, steps=tell_steps(steps))


def _status(end: ChildExit, tool: Tool) -> str | None:
    """How a tool ended, in words; None if its time was up."""
    answer: Any = (end.report or {}).get("answer")
    statuses = answer.get("status") if isinstance(answer, dict) else None
    if isinstance(statuses, dict):
        status = statuses.get(tool)
        return None if status is None else f"status {status}"
    if end.cause == "timeout":
        return None
    words = " ".join(f"{(end.report or {}).get('finding', '')} {end.log[-200:]}".split())
    return f"its job ({end.cause} {end.code}: {words})"

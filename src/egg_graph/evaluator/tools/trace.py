"""A trace of the device beside the witness's word: which kernels ran, whose they are, and for how long."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from egg_graph.evaluator.evidence.builder import EvaluationBuilder, stopwatch
from egg_graph.evaluator.evidence.rungs import RungName
from egg_graph.evaluator.host.fork_server import ForkServer, Limits
from egg_graph.evaluator.host.outcome import finding_of
from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.tools import handover
from egg_graph.schema import Finding, Integrity, KernelTask
from egg_graph.schema.base import Value

RUNG: RungName = "device_trace"
SECONDS = 60.0
"""The profiler's first use in a process takes ten of them."""
MEMORY_KERNEL = re.compile(
    r"FillFunctor|direct_copy_kernel|copy_kernel|CatArrayBatchedCopy|_copy_kernel_cuda|arange|"
    r"elementwise_kernel_with_index|CopyFunctor|bfloat16_copy|float16_copy|LoadWithCast|AssignFunctor|memset|memcpy",
    re.IGNORECASE,
)
"""Names of PyTorch's kernels that fill, copy, cast or count up."""
SLOWER_IN_TRACE, SLACK_MS = 1.5, 0.05
"""A device that was busy for longer than this times the timed call, and some, did work that the timing did not see."""


class Row(Value):
    """One kernel, copy or fill of a traced forward."""

    name: str
    kind: str
    count: int
    us: float
    grid: tuple[int, ...] | None = None
    block: tuple[int, ...] | None = None
    registers: int | None = None
    shared: int | None = None
    occupancy: float | None = None


@dataclass(frozen=True)
class Trace:
    """One traced forward."""

    rows: tuple[Row, ...]
    busy_ms: float
    streams: int
    launches: Mapping[str, int]
    """Own launches, by kernel."""

    @property
    def own(self) -> tuple[Row, ...]:
        """Rows of the candidate's kernels, longest first. One that ran more often than it was launched is another's."""
        return tuple(r for r in self.rows if r.kind == "kernel" and 0 < r.count <= self.launches.get(r.name, 0))

    @property
    def foreign(self) -> tuple[Row, ...]:
        """Rows of other kernels that compute."""
        own = {row.name for row in self.own}
        return tuple(
            r for r in self.rows if r.kind == "kernel" and r.name not in own and not MEMORY_KERNEL.search(r.name)
        )

    @property
    def shares(self) -> dict[str, float]:
        """Part of the device's time, by name."""
        total = sum(row.us for row in self.rows)
        return {row.name: round(row.us / total, 4) for row in self.rows} if total else {}

    @property
    def share(self) -> float:
        """Part of the device's time in the candidate's own kernels."""
        total = sum(row.us for row in self.rows)
        return sum(row.us for row in self.own) / total if total else 0.0


def read_trace(answer: Mapping[str, Any]) -> Trace | str:
    """The trace in a job's answer, or why there is none."""
    if "why" in answer:
        return str(answer["why"])
    try:
        return Trace(
            rows=tuple(Row.model_validate(row) for row in answer["rows"]),
            busy_ms=float(answer["busy_ms"]),
            streams=int(answer["streams"]),
            launches={str(name): int(count) for name, count in answer["launches"].items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError, ValidationError) as error:
        return f"the trace cannot be read: {' '.join(str(error).split())[:200]}"


def take_trace(fork_server: ForkServer, problem: Problem, case: Case, folder: Path) -> Trace | str:
    """Trace one forward of the candidate in `folder` in a fresh confined process; or why it was not traced."""
    if why := handover.too_large(case):
        return why
    payload = handover.hand_over(problem, case, folder)
    limits = Limits(wall_seconds=SECONDS, memory_bytes=None)
    end = fork_server.run("egg_graph.evaluator.worker.trace_job:run", payload, folder, limits)
    if end.report is not None and isinstance(end.report.get("answer"), dict):
        return read_trace(end.report["answer"])
    finding = finding_of(end, limit=SECONDS)
    return finding.message if finding is not None else "the process gave no answer"


def judge_trace(
    task: KernelTask, integrity: Integrity, trace: Trace, milliseconds: float | None
) -> tuple[Integrity, list[Finding]]:
    """What the device's word adds to the witness's.

    Args:
        task: its terms decide whether other kernels may compute.
        integrity: of the watched forward.
        trace: of one forward.
        milliseconds: of a timed call; None where it was not timed.
    """
    foreign = [row.name for row in trace.foreign]
    integrity = integrity.model_copy(
        update={"foreign_kernels": tuple(dict.fromkeys([*integrity.foreign_kernels, *foreign]))}
    )
    if not trace.own:
        message = "the device ran none of the candidate's Triton kernels"
        return integrity, [Finding(kind="no_triton_kernel", message=message, where=_shown(foreign))]
    if task.triton_only and foreign:
        message = f"the task allows Triton kernels only, but the device ran {_shown(foreign)}"
        return integrity, [Finding(kind="library_call", message=message, cure="compute this in a Triton kernel too")]
    if milliseconds is not None and trace.busy_ms > SLOWER_IN_TRACE * milliseconds + SLACK_MS:
        message = f"one forward keeps the device busy for {trace.busy_ms:.3f} ms, but was timed at {milliseconds:.3f}"
        return integrity, [Finding(kind="clock_disagreement", message=message)]
    return integrity, []


def trace(
    fork_server: ForkServer, problem: Problem, case: Case, folder: Path, builder: EvaluationBuilder
) -> Trace | None:
    """Add the rung `device_trace`; the trace, where there is one."""
    with stopwatch() as took:
        found = take_trace(fork_server, problem, case, folder)
    if isinstance(found, str):
        builder.skipped(RUNG, f"the device was not traced: {found}", took[0])
        return None
    timed = builder.timing.candidate_ms if builder.timing is not None else None
    builder.integrity, findings = judge_trace(problem.task, builder.integrity or Integrity(), found, timed)
    if findings:
        builder.fail(RUNG, findings, took[0])
        return found
    builder.triton_share = round(found.share, 4)
    others = [row.name for row in found.rows if row not in found.own]
    beside = f"; beside them {_shown(others)}" if others else ""
    builder.passed(
        RUNG,
        f"{found.share:.0%} of the device's time in one forward is the candidate's own kernels "
        f"({_shown([row.name for row in found.own])}), on {found.streams} stream{'s' if found.streams > 1 else ''}"
        f"{beside}",
        took[0],
    )
    return found


def _shown(names: Sequence[str]) -> str:
    short = [name if len(name) <= 60 else name[:57] + "..." for name in names[:4]]
    return ", ".join(short) + (f" and {len(names) - 4} more" if len(names) > 4 else "")

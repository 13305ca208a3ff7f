"""Trace one forward on the device: which kernels ran, whether they are the candidate's, and for how long."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from egg_graph.evaluator.device.access import GpuAccess
from egg_graph.evaluator.host.fork_server import ForkServer
from egg_graph.evaluator.host.outcome import finding_of
from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.tools.job_files import why_too_large, write_case
from egg_graph.evaluator.tools.waiting_job import WaitingJob
from egg_graph.evaluator.worker.trace_job import READY
from egg_graph.schema.base import Value

SECONDS = 60.0
"""Time limit of the job [s]. The profiler's first use in a process takes about 10 s."""
MEMORY_KERNEL = re.compile(
    r"FillFunctor|direct_copy_kernel|copy_kernel|CatArrayBatchedCopy|_copy_kernel_cuda|arange|"
    r"elementwise_kernel_with_index|CopyFunctor|bfloat16_copy|float16_copy|LoadWithCast|AssignFunctor|memset|memcpy",
    re.IGNORECASE,
)
"""Names of PyTorch's kernels that fill, copy, cast or count up; they do not compute."""


class DeviceWork(Value):
    """All runs of one kernel, copy or fill in a traced forward."""

    name: str
    kind: str
    """`kernel`, `copy` or `fill`."""
    count: int
    """How often it ran."""
    us: float
    """Time of all runs together [microseconds]."""
    grid: tuple[int, ...] | None = None
    """Blocks of the last launch, by dimension."""
    block: tuple[int, ...] | None = None
    """Threads per block, by dimension."""
    registers: int | None = None
    """Registers per thread."""
    shared: int | None = None
    """Shared memory per block [bytes]."""
    occupancy: float | None = None
    """Achieved occupancy, estimated [%]."""


@dataclass(frozen=True)
class DeviceTrace:
    """One traced forward."""

    rows: tuple[DeviceWork, ...]
    """What ran, longest first."""
    busy_ms: float
    """How long any stream was busy [ms]."""
    streams: int
    """Number of streams that ran something."""
    launches: Mapping[str, int]
    """Number of own launches that the candidate's process recorded, by kernel."""

    @property
    def own(self) -> tuple[DeviceWork, ...]:
        """The candidate's kernels, longest first. A kernel that ran more often than it was launched is not its own."""
        return tuple(r for r in self.rows if r.kind == "kernel" and 0 < r.count <= self.launches.get(r.name, 0))

    @property
    def foreign(self) -> tuple[DeviceWork, ...]:
        """Other kernels that compute."""
        own = {row.name for row in self.own}
        return tuple(
            r for r in self.rows if r.kind == "kernel" and r.name not in own and not MEMORY_KERNEL.search(r.name)
        )

    @property
    def shares(self) -> dict[str, float]:
        """Part of the device's time by name, 0 to 1."""
        total = sum(row.us for row in self.rows)
        return {row.name: round(row.us / total, 4) for row in self.rows} if total else {}

    @property
    def own_share(self) -> float:
        """Part of the device's time in the candidate's own kernels, 0 to 1."""
        total = sum(row.us for row in self.rows)
        return sum(row.us for row in self.own) / total if total else 0.0


def read_trace(answer: Mapping[str, Any]) -> DeviceTrace | str:
    """Read the trace in a job's answer; returns why there is none as text."""
    if "why" in answer:
        return str(answer["why"])
    try:
        return DeviceTrace(
            rows=tuple(DeviceWork.model_validate(row) for row in answer["rows"]),
            busy_ms=float(answer["busy_ms"]),
            streams=int(answer["streams"]),
            launches={str(name): int(count) for name, count in answer["launches"].items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError, ValidationError) as error:
        return f"the trace cannot be read: {' '.join(str(error).split())[:200]}"


def trace_forward(
    fork_server: ForkServer, access: GpuAccess, problem: Problem, case: Case, folder: Path
) -> DeviceTrace | str:
    """Trace one forward of a candidate in a fresh confined process; returns why it was not traced as text.

    The GPU is held alone only for the traced forward.

    Args:
        fork_server: forks the job.
        access: the judge's turns on the GPU.
        problem: the task.
        case: holds the inputs and weights.
        folder: holds the candidate and what it has compiled.
    """
    if why := why_too_large(case):
        return why
    name = "egg_graph.evaluator.worker.trace_job:run"
    with WaitingJob(fork_server, folder, name, [READY], SECONDS, tools=False) as job:
        with access.computing():
            job.launch(write_case(problem, case, folder))
            job.wait_until_ready()
        with access.measuring():
            end = job.go()
    if end.report is not None and isinstance(end.report.get("answer"), dict):
        return read_trace(end.report["answer"])
    finding = finding_of(end, limit=SECONDS)
    return finding.message if finding is not None else "the process gave no answer"

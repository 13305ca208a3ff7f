"""Compile the configurations of a sweep before it has the GPU, each into a folder of its own (`cache_filling`)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from egg_graph.evaluator.gpuless.cache_filling import fill_cache, recording_call
from egg_graph.evaluator.gpuless.ladder import GpulessLadder
from egg_graph.evaluator.judge.screening import gate
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.progress import report_progress
from egg_graph.evaluator.spending import spending_on
from egg_graph.schema import Candidate, Trial

COMPILERS = 12
"""Most launches, of one configuration or several, that are compiled side by side."""


@dataclass(frozen=True)
class Configurations:
    """The configurations of a sweep, each in a folder of its own that holds its compiled kernels."""

    candidates: Sequence[Candidate]
    rejected: Sequence[Trial | None]
    """For each the failed trial if the static gate rejects it, None if not."""
    folders: Sequence[Path]
    fingerprints: Sequence[str] = ()
    """Of each compiled forward (`compiled_fingerprint`); empty where it is not known."""

    def same_as(self, number: int) -> int:
        """Number of the first configuration that is the same compiled program; its own where none is."""
        known = self.fingerprints[number] if self.fingerprints else ""
        return self.fingerprints.index(known) if known else number


@contextmanager
def compiled_ahead(
    ladder: GpulessLadder, problem: Problem, candidates: Sequence[Candidate]
) -> Iterator[Configurations]:
    """Apply the static gate to configurations and compile those that it lets through; their folders last for the block.

    Args:
        ladder: the ladder without a GPU.
        problem: the task, for whose target is compiled.
        candidates: the configurations.
    """
    call, side_by_side = recording_call(ladder, problem), max(1, COMPILERS // max(1, len(candidates)))
    compilers = min(COMPILERS, len(os.sched_getaffinity(0)))
    rejected: list[Trial | None] = []
    folders: list[Path] = []
    compiling: list[Future[str] | None] = []
    with ExitStack() as stack:
        report_progress(f"compiles {len(candidates)} configurations")
        with spending_on("compile"), ThreadPoolExecutor(compilers) as pool:
            for candidate in candidates:
                rejected.append(gate(ladder, candidate))
                folders.append(stack.enter_context(ladder.jobs.job_folder(candidate)))
                given = ladder, problem.task, candidate, call, folders[-1], side_by_side
                compiling.append(None if rejected[-1] else pool.submit(fill_cache, *given))
        fingerprints = ["" if future is None else future.result() for future in compiling]
        yield Configurations(candidates, rejected, folders, fingerprints)

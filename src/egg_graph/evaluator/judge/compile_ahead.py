"""Compile the configurations of a sweep before it has the GPU: in processes without one, and without its memory.

What a forward at full shape launches is recorded by the interpreter, which runs no whole program of it, and compiled
for the target into the configuration's folder. A process that runs there later finds its kernels in Triton's cache.
Where this fails, that process compiles for itself, and tells what is wrong.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from egg_graph.evaluator.evidence.builder import EvaluationBuilder
from egg_graph.evaluator.evidence.statements import distinct
from egg_graph.evaluator.gpuless.compilation import TargetCompiler
from egg_graph.evaluator.gpuless.ladder import GpulessLadder
from egg_graph.evaluator.judge.screening import gate_each
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.progress import hear_progress, report_progress
from egg_graph.evaluator.spending import spending_on
from egg_graph.schema import Candidate, InfrastructureError, Trial

COMPILERS = 12
"""Most configurations that are compiled side by side."""
LAUNCH_SECONDS, RECORD_SECONDS = 0.2, 10.0
"""Time limits of recording one configuration [s]: per launch, and in all."""
COMPILE_SECONDS = 20.0
"""No further launch of a configuration is compiled after this time [s]."""


@dataclass(frozen=True)
class Configurations:
    """The configurations of a sweep, each in a folder of its own that holds its compiled kernels."""

    candidates: Sequence[Candidate]
    rejected: Sequence[Trial | None]
    """For each the failed trial if the static gate rejects it, None if not."""
    folders: Sequence[Path]


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
    rejected = gate_each(ladder, candidates)
    with ExitStack() as stack:
        folders = [stack.enter_context(ladder.jobs.job_folder(candidate)) for candidate in candidates]
        report_progress(f"compiles {len(candidates)} configurations")
        with spending_on("compile"):
            _compile_all(ladder, problem, candidates, rejected, folders)
        yield Configurations(candidates, rejected, folders)


def _compile_all(
    ladder: GpulessLadder,
    problem: Problem,
    candidates: Sequence[Candidate],
    rejected: Sequence[Trial | None],
    folders: Sequence[Path],
) -> None:
    call = {**ladder.fake_call(problem, LAUNCH_SECONDS, RECORD_SECONDS), "sample": 1}

    def compile_one(candidate: Candidate, trial: Trial | None, folder: Path) -> None:
        if trial is not None:
            return
        try:
            with hear_progress(None):
                run = ladder.launches(problem.task, candidate, call, EvaluationBuilder())
                if run is not None:
                    compiler = TargetCompiler(ladder.jobs, problem.task, candidate)
                    compiler.fill_cache(distinct(run.launches), folder, COMPILE_SECONDS)
        except InfrastructureError:  # the process on the GPU finds out for itself
            return

    with ThreadPoolExecutor(min(COMPILERS, len(os.sched_getaffinity(0)))) as pool:
        list(pool.map(compile_one, candidates, rejected, folders))

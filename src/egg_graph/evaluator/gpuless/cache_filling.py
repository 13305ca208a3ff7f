"""Compile what a candidate launches before its process has the GPU: in a process without one, and without its memory.

What a forward launches is recorded by the interpreter, which runs none of its programs, and compiled for the target
into the candidate's folder. A process that runs there later finds its kernels in Triton's cache. Where this fails, that
process compiles for itself, and tells what is wrong. What was compiled before is kept (`kept_code`).
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from egg_graph.evaluator.evidence.builder import EvaluationBuilder
from egg_graph.evaluator.evidence.compiled_program import compiled_fingerprint
from egg_graph.evaluator.evidence.statements import distinct
from egg_graph.evaluator.gate import judged_text
from egg_graph.evaluator.gpuless.compilation import TargetCompiler
from egg_graph.evaluator.gpuless.kept_code import copy_cache, key_of
from egg_graph.evaluator.gpuless.ladder import GpulessLadder
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.progress import hear_progress
from egg_graph.schema import Candidate, InfrastructureError, KernelTask

RECORD_SECONDS = 10.0
"""Time limit of recording one forward [s]."""
COMPILE_SECONDS = 20.0
"""No further launch of a forward is compiled after this time [s]."""
CACHE = "triton"
"""Triton's cache in a candidate's folder."""
SIDE_BY_SIDE = 6
"""Launches of one forward that are compiled at a time, where few forwards are."""


def recording_call(ladder: GpulessLadder, problem: Problem, shape: str = "full") -> dict[str, Any]:
    """Payload of a run that records what a forward launches, as `GpulessLadder.fake_call`."""
    return {**ladder.fake_call(problem, wall_seconds=RECORD_SECONDS, shape=shape), "sample": 0}


def fill_cache(
    ladder: GpulessLadder,
    task: KernelTask,
    candidate: Candidate,
    call: dict[str, Any],
    folder: Path,
    side_by_side: int = SIDE_BY_SIDE,
) -> str:
    """Compile what one forward launches into Triton's cache in a folder.

    Args:
        ladder: the ladder without a GPU.
        task: for whose target is compiled.
        candidate: the kernel.
        call: payload of the run that records its launches (`recording_call`).
        folder: where the candidate's process will run.
        side_by_side: launches that are compiled at a time.

    Returns:
        The `compiled_fingerprint` of the forward; empty where it is not known.
    """
    kept, cache = ladder.jobs.code, folder / CACHE
    key = key_of(judged_text(candidate.source).source, call)
    if kept is not None and (fingerprint := kept.give(key, cache)) is not None:
        return fingerprint
    try:
        with hear_progress(None), ladder.jobs.job_folder(candidate) as apart:
            known = {entry.name for entry in (apart / CACHE).iterdir()} if (apart / CACHE).is_dir() else set()
            begun = time.monotonic()
            fingerprint = _compiled(ladder, task, candidate, call, apart, side_by_side)
            in_time = time.monotonic() - begun < COMPILE_SECONDS
            with suppress(OSError):  # the candidate's process may have spoilt its own folder
                copy_cache(apart / CACHE, cache, known)
            if kept is not None and fingerprint is not None and in_time:
                kept.keep(key, apart / CACHE, fingerprint, known)
            return fingerprint or ""
    except InfrastructureError:  # the process on the GPU finds out for itself
        return ""


def _compiled(
    ladder: GpulessLadder, task: KernelTask, candidate: Candidate, call: dict[str, Any], folder: Path, side_by_side: int
) -> str | None:
    """Record a forward and compile its launches; its fingerprint, None where they are not known."""
    run = ladder.launches(task, candidate, call, EvaluationBuilder())
    if run is None:
        return None
    compiler, launchers = TargetCompiler(ladder.jobs, task, candidate), ladder.jobs.launchers
    with ThreadPoolExecutor(1) as aside:
        given = None
        if launchers is not None:
            given = aside.submit(launchers.give, run.launches, task.target, folder / CACHE)
        codes = compiler.fill_cache(distinct(run.launches), folder, COMPILE_SECONDS, side_by_side)
    if given is not None:
        given.result()
    return compiled_fingerprint(run, codes)

"""Compile a candidate at every shape that it is judged at, side by side, before its process calls it on the GPU.

That process would compile shape after shape in its first calls, in turns that it takes from others on the same GPU.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from egg_graph.evaluator.gpu.correctness import reduced_names
from egg_graph.evaluator.gpuless.cache_filling import fill_cache, recording_call
from egg_graph.evaluator.gpuless.ladder import GpulessLadder
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.spending import spending_on
from egg_graph.schema import Candidate

FULL = "full"


class ShapesAhead:
    """The shapes of one evaluation, compiled in the background from the start.

    Inputs are drawn in the judge's own thread: random numbers have one source.

    Args:
        base: the ladder without a GPU.
        problem: the task.
        candidate: is compiled.
        folder: where the candidate's process will run.
    """

    def __init__(self, base: GpulessLadder, problem: Problem, candidate: Candidate, folder: Path) -> None:
        calls = {name: recording_call(base, problem, name) for name in (*reduced_names(problem), FULL)}
        self._compiling = {
            name: base.pool.submit(fill_cache, base, problem.task, candidate, call, folder)
            for name, call in calls.items()
        }

    def wait_for_reduced(self) -> None:
        """Wait until the reduced shapes are compiled."""
        self._wait(name for name in self._compiling if name != FULL)

    def wait_for_full(self) -> None:
        """Wait until the full shape is compiled."""
        self._wait([FULL])

    def close(self) -> None:
        """Begin no more of it."""
        for compiling in self._compiling.values():
            compiling.cancel()

    def _wait(self, names: Iterable[str]) -> None:
        with spending_on("compile"):
            for name in names:
                self._compiling[name].result()

"""Draw new inputs for every timed call, one secret seed after another.

The timing session encrypts each set before the candidate's process can see it (`TimingSession.prepare_sets`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.case_builder import draw_inputs
from egg_graph.evaluator.problem.operators import SIZED_BY_VALUES
from egg_graph.evaluator.problem.precision import cast_as_policy_says
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.problem.reference_runner import ReferenceRunner
from egg_graph.evaluator.problem.shape_trials import output_shapes
from egg_graph.schema import BadInput

SLOW_DRAW_SECONDS = 0.02
"""Time to draw one set of inputs [s] above which sets are drawn once and used again under new keys."""
MOST_DRAWS = 32
"""Draws among which one has to have the case's form, where the sizes of inputs hang on what is drawn."""


class InputSets:
    """Draws sets of inputs by `get_inputs`, each under a new secret seed.

    Args:
        problem: the task.
        case: gives the form that every set must have.
        most: number of sets that are kept if drawing is slow.
        seed_numbers: number the secret seeds; no number comes twice while the problem lives.
    """

    def __init__(self, problem: Problem, case: Case, most: int, seed_numbers: Iterator[int]) -> None:
        self.problem, self.case, self.most, self.seed_numbers = problem, case, most, seed_numbers
        self.form = form_of(case.inputs)
        self.sized_by_values = bool(case.operators & SIZED_BY_VALUES) and not output_shapes(problem.reference)
        """Whether the sizes of the answer may hang on what the inputs hold."""
        self.pool: list[tuple[int | None, list[Any]]] = []
        """Seed and inputs of the sets that are used again; empty if every set is drawn anew."""
        self.note = ""
        """Why sets are used again; empty if they are not."""
        self.misfit = ""
        """Why the last set that was drawn and passed over is not one of the case's form."""
        self.taken = 0
        """How many sets were taken from the pool."""
        self._try_drawing()

    def next(self) -> tuple[int | None, list[Any]]:
        """Return the seed of the next set (None for the case's own inputs) and its inputs on the device."""
        if not self.pool:
            fitting = self._draw_fitting()
            if fitting is not None:
                return fitting
            self._use_own_inputs(self.misfit)
        self.taken += 1
        return self.pool[self.taken % len(self.pool)]

    def _try_drawing(self) -> None:
        """Draw two sets, and fill the pool if sets cannot be drawn when they are needed."""
        if self._draw_fitting() is None:
            self._use_own_inputs(self.misfit)
            return
        _synchronize()
        started = time.monotonic()
        first = self._draw_fitting()
        _synchronize()
        took = time.monotonic() - started
        if first is not None and took > SLOW_DRAW_SECONDS:
            self._fill_pool(first, took)

    def _fill_pool(self, first: tuple[int, list[Any]], took: float) -> None:
        """Draw all sets at once, to be used again; `took` is the time of one [s]."""
        drawn = [first, *(self._draw_fitting() for _ in range(self.most - 1))]
        self.pool = [fitting for fitting in drawn if fitting is not None]
        self.note = (
            f"drawing one set of inputs takes {took:.2f} s: timed calls share {len(self.pool)} sets, "
            "each time under a new key"
        )

    def _use_own_inputs(self, why: str) -> None:
        """Give every timed call the case's own inputs."""
        with self.case.held() as case:
            self.pool = [(None, case.inputs)]
        self.note = f"all timed calls have the same inputs: {why}"

    def _draw_fitting(self) -> tuple[int, list[Any]] | None:
        """Seed and inputs of the next set of the case's form; None where several draws have another one."""
        for _ in range(MOST_DRAWS):
            seed = self._seed()
            try:
                inputs = self._draw(seed)
            except BadInput as error:
                self.misfit = f"get_inputs fails under another seed: {error}"
                return None
            if form_of(inputs) != self.form:
                self.misfit = "the inputs' form or their plain numbers change with the seed"
            elif self.sized_by_values and not self._has_answer_of_same_sizes(inputs):
                self.misfit = "the sizes of the answer hang on their values"
            else:
                return seed, inputs
        return None

    def _has_answer_of_same_sizes(self, inputs: list[Any]) -> bool:
        answer = ReferenceRunner.of(self.case, inputs).at(self.problem.task.precision)
        return [x.shape for x in answer.leaves] == [leaf.expected.shape for leaf in self.case.leaves]

    def _seed(self) -> int:
        return self.problem.seed("timed", next(self.seed_numbers))

    def _draw(self, seed: int) -> list[Any]:
        inputs = draw_inputs(self.problem.reference, seed + 1, self.problem.device)
        return cast_as_policy_says(inputs, self.problem.task.precision)


def form_of(inputs: Sequence[Any]) -> list[Any]:
    """Return shape, dtype and strides of every tensor, and every other value itself."""
    return [(x.shape, x.dtype, x.stride()) if isinstance(x, torch.Tensor) else x for x in tree_leaves(list(inputs))]


def _synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()

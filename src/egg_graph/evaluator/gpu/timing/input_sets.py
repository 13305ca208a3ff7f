"""Inputs that nobody in the candidate's process can read before their call.

The judge packs one set of inputs into one piece of memory, XORs it with the stream of a random key (`bare_ptx`), and
tells the key with the command to call. The process that calls undoes it on the stream, just before the forward.

    staging, owned by the judge:  | x ^ stream, padded to 256 bytes | mask ^ stream | ...
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.precision import CAST, cast_inputs
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.schema import BadInput

SLOW_DRAW = 0.02
"""Seconds for one set of inputs, above which sets are drawn once and used again under new keys."""


class Draws:
    """`get_inputs` under one new secret seed after another.

    Args:
        problem: of the task.
        case: whose form every set has.
        most: sets that are kept where drawing is slow.
        numbers: of the secret seeds; never the same again while the problem lives.
    """

    def __init__(self, problem: Problem, case: Case, most: int, numbers: Iterator[int]) -> None:
        self.problem, self.case, self.most, self.numbers = problem, case, most, numbers
        self.form = form_of(case.inputs)
        self.pool: list[tuple[int, list[Any]]] = []
        """Where sets are used again: seed and inputs. Empty where every set is new."""
        self.note = ""
        self.taken = 0
        self._examine()

    @property
    def always_new(self) -> bool:
        return not self.pool

    def next(self) -> tuple[int | None, list[Any]]:
        """Seed (None: the case's own inputs) and inputs on the device."""
        if self.pool:
            self.taken += 1
            seed, inputs = self.pool[self.taken % len(self.pool)]
            return (None if seed < 0 else seed), inputs
        seed = self._seed()
        return seed, self._draw(seed)

    def _examine(self) -> None:
        """Whether sets can be drawn as they are needed."""
        try:
            if form_of(self._draw(self._seed())) != self.form:
                self._give_up("the inputs' form or their plain numbers change with the seed")
                return
            _idle()
            started = time.monotonic()
            seed = self._seed()
            first = self._draw(seed)
            _idle()
        except BadInput as error:
            self._give_up(f"get_inputs fails under another seed: {error}")
            return
        took = time.monotonic() - started
        if took > SLOW_DRAW:
            self.pool = [(seed, first), *((s, self._draw(s)) for s in (self._seed() for _ in range(self.most - 1)))]
            self.note = (
                f"drawing one set of inputs takes {took:.2f} s: timed calls share {len(self.pool)} sets, "
                "each time under a new key"
            )

    def _give_up(self, why: str) -> None:
        self.pool = [(-1, self.case.inputs)]
        self.note = f"all timed calls have the same inputs: {why}"

    def _seed(self) -> int:
        return self.problem.seed("timed", next(self.numbers))

    def _draw(self, seed: int) -> list[Any]:
        device = self.problem.device
        with device if device.type == "cuda" else nullcontext():
            inputs = self.problem.reference.inputs(seed + 1)  # as problem.with_other_inputs draws them
        inputs = torch.utils._pytree.tree_map_only(torch.Tensor, lambda x: x.to(device), inputs)
        return cast_inputs(inputs, CAST.get(self.problem.task.precision))


def form_of(inputs: Sequence[Any]) -> list[Any]:
    """Shape, dtype and strides of every tensor; any other value itself."""
    return [(x.shape, x.dtype, x.stride()) if isinstance(x, torch.Tensor) else x for x in tree_leaves(list(inputs))]


def _idle() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()

"""`while` loops, which may wait for what another program writes: spin locks, decoupled look-back, barriers of a grid.

Programs are interpreted one after the other, in order. So a program finds what earlier programs have published, and
waits for ever for what later ones would, unless the launch is a cooperative one, whose programs take turns. It waits
for ever, too, in a fake run, where loads give zeros. Such a loop is known by an iteration that changes nothing: neither
memory nor a local of the kernel.
"""

import sys
import time
from typing import Any

import numpy as np
import triton.language as tl

from egg_graph.evaluator.interpreter.conditions import refuse, truth_of_tensor, unwrap
from egg_graph.evaluator.interpreter.cooperative import DEADLOCK
from egg_graph.evaluator.interpreter.run_state import current_run
from egg_graph.evaluator.wire.faults import KernelFault, Unfakeable

PATIENCE = 32
"""Iterations before the first look at whether one changes anything; then after twice as many, and so on. In a
cooperative launch the first iteration is looked at: most of its loops wait."""
State = tuple[int, dict[str, Any]]


class Waiting(Exception):
    """A program waits for one that has not been interpreted."""


class WhileLoop:
    """One execution of a `while` loop."""

    def __init__(self) -> None:
        launch = current_run().launch
        self.iterations = 0
        self.next_look = 1 if launch is not None and launch.cooperative else PATIENCE
        self.seen: State | None = None
        self.began = time.perf_counter()

    def goes_on(self, condition: Any) -> bool:
        """Decide whether there is another iteration.

        A loop that waits for another program ends at once in a fake run.

        Raises:
            KernelFault: `unsupported_in_kernel`, for a condition known at compile time; `timeout`, for a wait that no
                program before has ended.
            Waiting: for a wait in a launch of which programs are left out.
            Unfakeable: in a fake run, if the loop takes too long.
        """
        condition = unwrap(getattr(condition, "condition", condition))  # tl.condition only adds attributes to a loop
        if not isinstance(condition, tl.tensor):
            refuse("`while` on a condition that is known at compile time", "Let the condition depend on a tensor.")
        run = current_run()
        run.steps += 1
        self.iterations += 1
        if not truth_of_tensor(condition):
            return False
        if self.iterations < self.next_look:
            return True
        state = _state(sys._getframe(1).f_locals)
        if self.seen is None or not _equal(self.seen, state):
            looked = self.seen is not None
            self.seen = None if looked else state
            self.next_look = 2 * self.iterations if looked else self.iterations + 1
            return not self._too_long()
        return self._wait()

    def _too_long(self) -> bool:
        run = current_run()
        if run.fake and time.perf_counter() - self.began > run.budget_seconds:
            raise Unfakeable("a loop depends on values that other programs write")
        return False

    def _wait(self) -> bool:
        run = current_run()
        assert run.launch is not None
        if run.fake:
            return False
        if run.launch.wait_for_others is not None:
            self.seen, self.next_look = None, self.iterations + 1
            if run.launch.wait_for_others():
                return True
            raise _timeout(DEADLOCK, "Let every program publish what others wait for before it waits itself.")
        if run.launch.incomplete:
            raise Waiting
        raise _timeout(
            "waits in a loop for what no program before it has written; the interpreter runs programs in order, and a"
            " GPU, too, may start the later ones only when the earlier ones have ended",
            "Let programs wait only for programs of a lower number, launch with launch_cooperative_grid=True, which"
            " starts all of them together, or split the work into two launches.",
        )


def _timeout(what: str, cure: str) -> KernelFault:
    run = current_run()
    assert run.launch is not None
    return KernelFault("timeout", f"program {run.launch.program} {what}", run.where(), cure)


def _state(local: dict[str, Any]) -> State:
    """Take down what an iteration may change: how often memory changed, and the kernel's tensors and numbers."""
    launch = current_run().launch
    assert launch is not None
    return launch.memory_changes, {
        name: _value(value) for name, value in local.items() if not isinstance(value, WhileLoop)
    }


def _value(value: Any) -> Any:
    if isinstance(value, tl.tensor):
        data = getattr(value.handle, "data", None)
        return data.copy() if isinstance(data, np.ndarray) else value.handle
    if isinstance(value, tuple | list | tl.tuple):
        return [_value(item) for item in value]
    return value


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(_equal(left[name], right[name]) for name in left)
    if isinstance(left, tuple | list) and isinstance(right, tuple | list):
        return len(left) == len(right) and all(map(_equal, left, right))
    return left is right or (isinstance(left, int | float | str) and left == right)

"""The baseline that a candidate is timed against: PyTorch eager and torch.compile at the policy's precision."""

from __future__ import annotations

import copy
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from egg_graph.evaluator.docket import Docket
from egg_graph.evaluator.gpu_clock import LEAD, Pace, find_pace, flush_bytes, time_block
from egg_graph.evaluator.precision import cast_inputs, pytorch_at
from egg_graph.evaluator.problem import Case, Unevaluable
from egg_graph.evaluator.reference import one_line
from egg_graph.evaluator.timing import median
from egg_graph.schema import Precision

COMPILE_SECONDS = 300
REPEATS = 20
FP32_REPEATS = 10
WARM_SECONDS = 0.3
"""Of each forward, before its first block."""


class Opponent:
    """PyTorch's forwards of one task at full shape, compiled once and kept.

    Raises:
        Unevaluable: if the reference's answer cannot be judged.
    """

    def __init__(self, docket: Docket) -> None:
        self.docket = docket
        self.case: Case = next(docket.full_cases())
        self.precision = docket.task.precision
        self.flush = torch.empty(flush_bytes(), dtype=torch.uint8, device=docket.device)
        self.notes: list[str] = []
        self.fresh = self._fresh()  # before the timed forwards, which may change a model that keeps statistics
        model = self.case.model
        inputs = cast_inputs(self.case.inputs, None)
        self.forwards: dict[str, Callable[[], Any]] = {"eager": lambda: model(*inputs)}
        compiled = self._compiled(model, inputs)
        if compiled is not None:
            self.forwards["compile"] = compiled
        self.paces = {name: self._warm(name) for name in self.forwards}
        self.milliseconds = {name: median(self.time(name, REPEATS)) for name in self.forwards}
        self.eager_fp32_ms = self._eager_fp32(model)

    @property
    def best(self) -> str:
        """`eager` or `compile`, whichever is faster."""
        return min(self.milliseconds, key=lambda name: self.milliseconds[name])

    def time(self, name: str, calls: int, lead: int = LEAD) -> list[float]:
        """One block of timed forwards [ms by events], `gpu_clock.time_block`."""
        with pytorch_at(self.precision, self.docket.device), torch.no_grad():
            return time_block(
                self.forwards[name], self.flush, calls=calls, spin_cycles=self.paces[name].spin_cycles, lead=lead
            )

    def _warm(self, name: str) -> Pace:
        with pytorch_at(self.precision, self.docket.device), torch.no_grad():
            return find_pace(self.forwards[name], WARM_SECONDS)

    def _fresh(self) -> Case | None:
        """The case's model on other inputs, by which the answer of a timed call is checked."""
        try:
            return self.docket.with_other_inputs(self.case)
        except (Unevaluable, torch.OutOfMemoryError) as problem:
            self.notes.append(f"no timed call's answer was compared: {one_line(problem)}")
            return None

    def _compiled(self, model: torch.nn.Module, inputs: list[Any]) -> Callable[[], Any] | None:
        compiled = torch.compile(copy.deepcopy(model))
        try:
            with alarm(COMPILE_SECONDS), pytorch_at(self.precision, self.docket.device), torch.no_grad():
                compiled(*inputs)
                torch.cuda.synchronize()
        except Exception as error:  # noqa: BLE001 - a compiler that fails is a note, not the end
            self.notes.append(f"torch.compile failed: {one_line(error)}")
            return None
        return lambda: compiled(*inputs)

    def _eager_fp32(self, model: torch.nn.Module) -> float | None:
        """PyTorch as papers measure it: fp32, TF32 off."""
        if self.precision == "ieee":
            return self.milliseconds["eager"]
        ieee: Precision = "ieee"
        try:
            wide = copy.deepcopy(model).float()
            inputs = cast_inputs(self.case.inputs, torch.float32)
            with pytorch_at(ieee, self.docket.device), torch.no_grad():
                pace = find_pace(lambda: wide(*inputs), WARM_SECONDS)
                times = time_block(lambda: wide(*inputs), self.flush, calls=FP32_REPEATS, spin_cycles=pace.spin_cycles)
        except RuntimeError as error:
            self.notes.append(f"fp32 eager failed: {one_line(error)}")
            return None
        return median(times)


@contextmanager
def alarm(seconds: int) -> Iterator[None]:
    """TimeoutError in the main thread after so many seconds."""

    def ring(number: int, frame: Any) -> None:
        raise TimeoutError(f"not done within {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)

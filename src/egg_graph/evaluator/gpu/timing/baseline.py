"""The baseline that a candidate is timed against: PyTorch eager and torch.compile at the policy's precision."""

from __future__ import annotations

import copy
import itertools
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from egg_graph.evaluator.device.driver import BareGpu
from egg_graph.evaluator.device.layout import Layout
from egg_graph.evaluator.device.state import resolution_ns
from egg_graph.evaluator.device.stream_timer import LEAD, Clock, Pace, Place, Reading, Sealed, find_pace, flush_bytes
from egg_graph.evaluator.gpu.floor import Floor, floor_of
from egg_graph.evaluator.gpu.timing.agreement import Burst
from egg_graph.evaluator.gpu.timing.statistics import median
from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.precision import cast_inputs, pytorch_at
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.problem.reference import one_line
from egg_graph.schema import Precision

COMPILE_SECONDS = 300
REPEATS = 20
FP32_REPEATS = 10
WARM_SECONDS = 0.3
"""Of each forward, before its first block."""


class PyTorchBaseline:
    """PyTorch's forwards of one task at full shape, compiled once and kept.

    They read their inputs where `raw` holds them, packed as `layout` says.

    Raises:
        Unevaluable: if the reference's answer cannot be judged.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.case: Case = next(problem.full_cases())
        self.precision = problem.task.precision
        self.gpu = BareGpu()
        self.flush = torch.empty(flush_bytes(), dtype=torch.uint8, device=problem.device)
        self.clock = Clock(self.gpu, Place(self.flush.data_ptr(), self.flush.numel()))
        self.notes: list[str] = []
        self.numbers = itertools.count(1)
        """Of the secret seeds of timed calls."""
        self.idle: dict[int, list[Burst]] = {}
        """By number of calls, bursts without forwards."""
        self.layout = Layout.of(self.case.inputs)
        self.raw = torch.empty(self.layout.nbytes, dtype=torch.uint8, device=problem.device)
        self.layout.pack(self.case.inputs, self.raw)
        # A forward may change what the model keeps (running statistics); the case's own model stays as it is.
        model = copy.deepcopy(self.case.model) if list(self.case.model.buffers()) else self.case.model
        inputs = self.layout.views(self.raw)
        self.forwards: dict[str, Callable[[], Any]] = {"eager": lambda: model(*inputs)}
        compiled = self._compiled(model, inputs)
        if compiled is not None:
            self.forwards["compile"] = compiled
        self.paces = {name: self._warm(name) for name in self.forwards}
        self.milliseconds = {name: median(self.time(name, REPEATS)) for name in self.forwards}
        self.eager_fp32_ms = self._eager_fp32(model)
        self.resolution_ns = resolution_ns(self.gpu)
        """Step of the GPU's own clock."""
        self.empty_ms = self._empty()
        """Between two stamps of it with no forward between them."""
        self.floor = self._floor()

    @property
    def nbytes(self) -> int:
        """What it keeps on the GPU, about: inputs twice, answers, weights twice, and what flushes the cache."""
        weights = sum(x.numel() * x.element_size() for x in self.case.state.values())
        return self.raw.numel() + self.flush.numel() + self.case.nbytes + 2 * weights

    @property
    def best(self) -> str:
        """`eager` or `compile`, whichever is faster."""
        return min(self.milliseconds, key=lambda name: self.milliseconds[name])

    def time(self, name: str, calls: int, lead: int = LEAD) -> list[float]:
        """Timed forwards on the inputs as they lie [ms by events]."""
        with pytorch_at(self.precision, self.problem.device), torch.no_grad():
            return self.clock.series(self.forwards[name], calls=calls, lead=lead, spin_ns=self.paces[name].spin_ns)

    def once(
        self, source: Place, key: int, *, spin_ns: int, filling: int, stamps: int, deliver: Callable[[Any], None]
    ) -> Reading:
        """One call of the best forward on sealed inputs, exactly as a candidate's (`gpu_clock.Clock.once`)."""
        with pytorch_at(self.precision, self.problem.device), torch.no_grad():
            return self.clock.once(
                self.forwards[self.best],
                sealed=Sealed(source, Place(self.raw.data_ptr(), self.raw.numel()), key),
                spin_ns=spin_ns,
                filling=filling,
                stamps=stamps,
                deliver=deliver,
            )

    def _empty(self) -> float:
        stamps = torch.zeros(2, dtype=torch.int64, device=self.problem.device)
        steps = []
        for _ in range(REPEATS):
            self.clock.once(
                lambda: None,
                sealed=None,
                spin_ns=self.paces["eager"].spin_ns,
                filling=0,
                stamps=stamps.data_ptr(),
                deliver=lambda result: None,
            )
            before, after = stamps.tolist()
            steps.append((after - before) / 1e6)
        return median(steps)

    def _floor(self) -> Floor:
        """Not told where the GPU's memory does not hold one more run of the reference."""
        try:
            return floor_of(copy.deepcopy(self.case.model), self.case.inputs, self.problem.task.target)
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            self.notes.append("times were not held against what the memory's peak allows: no memory to count the bytes")
            return Floor(0.0, 0.0)

    def _warm(self, name: str) -> Pace:
        with pytorch_at(self.precision, self.problem.device), torch.no_grad():
            return find_pace(self.forwards[name], WARM_SECONDS)

    def _compiled(self, model: torch.nn.Module, inputs: list[Any]) -> Callable[[], Any] | None:
        compiled = torch.compile(copy.deepcopy(model))
        try:
            with alarm(COMPILE_SECONDS), pytorch_at(self.precision, self.problem.device), torch.no_grad():
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
            with pytorch_at(ieee, self.problem.device), torch.no_grad():
                pace = find_pace(lambda: wide(*inputs), WARM_SECONDS)
                times = self.clock.series(lambda: wide(*inputs), calls=FP32_REPEATS, lead=LEAD, spin_ns=pace.spin_ns)
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

"""The baseline that a candidate is timed against: PyTorch eager and torch.compile at the policy's precision."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from egg_graph.evaluator.device.access import GpuAccess
from egg_graph.evaluator.device.driver import CudaDriver
from egg_graph.evaluator.device.interference import measure_clock_resolution
from egg_graph.evaluator.device.layout import Layout
from egg_graph.evaluator.device.stream_timer import (
    WARMUP_CALLS,
    CallTime,
    DeviceBuffer,
    EncryptedInputs,
    HostLatency,
    StreamTimer,
    flush_bytes,
    measure_host_latency,
)
from egg_graph.evaluator.garbage_collection import garbage_collection_off
from egg_graph.evaluator.gpu.floor import MemoryFloor, memory_floor
from egg_graph.evaluator.gpu.timing.agreement import Burst
from egg_graph.evaluator.gpu.timing.statistics import median
from egg_graph.evaluator.gpu.timing.timed_answers import allowed_difference, relative_difference
from egg_graph.evaluator.host.deadline import deadline
from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.model_copy import copy_of
from egg_graph.evaluator.problem.operators import SEARCHES
from egg_graph.evaluator.problem.precision import cast_inputs, pytorch_at
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.problem.reference import one_line
from egg_graph.evaluator.wire.exchange import flatten
from egg_graph.schema import Precision

COMPILE_SECONDS = 300
"""Time limit of torch.compile [s]."""
CALLS = 20
"""Recorded calls that choose between eager and torch.compile."""
FP32_CALLS = 10
"""Recorded calls of eager PyTorch in fp32."""
WARMUP_SECONDS = 0.15
"""Warm-up of each forward before its first recorded call [s]."""


@contextmanager
def considerate_compiler(access: GpuAccess) -> Iterator[None]:
    """Let others measure while torch.compile compiles; what it compiled runs in turns, and what it measures is alone.

    At the first call of what it compiled it measures the configurations of its kernels, and keeps the fastest. Others
    on the GPU would spoil that choice, and so flatter candidates. So that whole first call is alone: its kernels do not
    wait one after the other.
    """
    from torch._inductor.output_code import CompiledFxGraph
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    run, measure = CompiledFxGraph.__call__, CachingAutotuner.benchmark_all_configs
    called: list[CompiledFxGraph] = []

    def run_in_turn(self: CompiledFxGraph, *arguments: Any, **keywords: Any) -> Any:
        first = all(graph is not self for graph in called)
        if first:
            called.append(self)
        with access.measuring() if first else access.computing():
            return run(self, *arguments, **keywords)

    def measure_alone(self: CachingAutotuner, *arguments: Any, **keywords: Any) -> Any:
        with access.measuring():
            return measure(self, *arguments, **keywords)

    CompiledFxGraph.__call__, CachingAutotuner.benchmark_all_configs = run_in_turn, measure_alone
    try:
        with access.away():
            yield
    finally:
        CompiledFxGraph.__call__, CachingAutotuner.benchmark_all_configs = run, measure


class PyTorchBaseline:
    """PyTorch's forwards of one task at full shape, compiled once and kept. `measure` times them.

    They read their inputs from `raw`, packed as `layout` says; it takes memory only inside `inputs_allocated()`.

    Args:
        problem: the task.
        access: the judge's turns on the GPU.

    Raises:
        Unevaluable: if the reference's answer cannot be judged.
    """

    def __init__(self, problem: Problem, access: GpuAccess | None = None) -> None:
        self.problem = problem
        self._access = access or GpuAccess()
        self.case: Case = next(problem.full_cases())
        self.precision = problem.task.precision
        self.driver = CudaDriver()
        self.flush = torch.empty(flush_bytes(), dtype=torch.uint8, device=problem.device)
        self.timer = StreamTimer(self.driver, DeviceBuffer.of(self.flush))
        self.notes: list[str] = []
        self.seed_numbers = itertools.count(1)
        """Number the secret seeds of timed calls."""
        self.empty_bursts: dict[int, list[Burst]] = {}
        """Bursts without forwards, by number of calls."""
        self.layout = Layout.of(self.case.inputs)
        self.raw = torch.empty(0, dtype=torch.uint8, device=problem.device)
        self.inputs: list[Any] = []
        """Views of `raw`."""
        # A forward may change the model's buffers (running statistics); the case's own model stays as it is.
        self.model = copy_of(self.case.model) if list(self.case.model.buffers()) else self.case.model
        self.forwards: dict[str, Callable[[], Any]] = {"eager": lambda: self.model(*self.inputs)}
        self.measured = False
        with self._own_inputs():
            compiled = self._compiled(self.model)
            if compiled is not None:
                self.forwards["compile"] = compiled

    def measure(self) -> PyTorchBaseline:
        """Time every forward once, on the case's own inputs, with nobody else on the GPU; returns the baseline."""
        if self.measured:
            return self
        with self._own_inputs():
            self.latencies = {name: self._warm_up(name) for name in self.forwards}
            self.milliseconds = {name: median(self.time_calls(name, CALLS)) for name in self.forwards}
            self.eager_fp32_ms = self._eager_fp32(self.model)
            self.resolution_ns = measure_clock_resolution(self.driver)
            """Smallest step of the GPU's own clock [ns]."""
            self.empty_ms = self._time_empty_call()
            """Time between two timestamps with no forward between them [ms]."""
            self.floor = self._memory_floor()
        self.measured = True
        return self

    @contextmanager
    def _own_inputs(self) -> Iterator[None]:
        """Memory for the inputs of the forwards, with the case's own in it."""
        with self.inputs_allocated():
            with self.case.held() as case:
                self.layout.pack(case.inputs, self.raw)
            yield

    @contextmanager
    def inputs_allocated(self) -> Iterator[None]:
        """Memory for the inputs of the forwards, for the block."""
        self.raw = torch.empty(self.layout.nbytes, dtype=torch.uint8, device=self.problem.device)
        self.inputs = self.layout.views(self.raw)
        try:
            yield
        finally:
            self.inputs = []
            self.raw = self.raw.new_empty(0)

    @property
    def nbytes(self) -> int:
        """Memory that it keeps on the GPU, about: its case, weights twice, and the flush [bytes]."""
        return self.raw.numel() + self.flush.numel() + self.case.kept_bytes + 2 * self.case.weights_bytes

    @property
    def best(self) -> str:
        """Name of the faster forward: `eager` or `compile`."""
        return min(self.milliseconds, key=lambda name: self.milliseconds[name])

    def time_calls(self, name: str, calls: int, warmup_calls: int = WARMUP_CALLS) -> list[float]:
        """Time calls of one forward on the inputs as they lie; returns the event time of each [ms]."""
        with pytorch_at(self.precision, self.problem.device), torch.no_grad():
            spin_ns = self.latencies[name].spin_ns
            return self.timer.time_calls(self.forwards[name], calls=calls, warmup_calls=warmup_calls, spin_ns=spin_ns)

    def time_call(
        self,
        source: DeviceBuffer,
        key: int,
        *,
        spin_ns: int,
        flush_value: int,
        timestamps: int,
        deliver: Callable[[Any], None],
    ) -> CallTime:
        """Time one call of the best forward on encrypted inputs, exactly as a candidate's is timed.

        Args:
            source: the encrypted inputs.
            key: 64-bit key of the inputs.
            spin_ns, flush_value, timestamps, deliver: as for `StreamTimer.time_call`.
        """
        with pytorch_at(self.precision, self.problem.device), torch.no_grad():
            return self.timer.time_call(
                self.forwards[self.best],
                inputs=EncryptedInputs(source, DeviceBuffer.of(self.raw), key),
                spin_ns=spin_ns,
                flush_value=flush_value,
                timestamps=timestamps,
                deliver=deliver,
            )

    def queue_burst(
        self,
        sources: Sequence[tuple[DeviceBuffer, int]],
        *,
        spin_ns: int,
        forward: bool,
        deliver: Callable[[Any], None],
    ) -> None:
        """Queue calls of the best forward behind one spin, exactly as a candidate's are, and do not wait for the GPU.

        Args:
            sources: the encrypted inputs of each call, and their 64-bit key.
            spin_ns: duration of the spin [ns].
            forward: whether forwards are called; otherwise all but them is queued.
            deliver: queues copies of each result; gets None without forwards.
        """
        call, raw = self.forwards[self.best], DeviceBuffer.of(self.raw)
        with pytorch_at(self.precision, self.problem.device), torch.no_grad(), garbage_collection_off():
            self.driver.spin(spin_ns)
            for source, key in sources:
                self.timer.queue_preparation(EncryptedInputs(source, raw, key), 0)
                deliver(call() if forward else None)

    def call_repeatedly(self, calls: int) -> None:
        """Call the best forward on the inputs as they lie, back to back, and wait for the GPU."""
        with pytorch_at(self.precision, self.problem.device), torch.no_grad():
            for _ in range(calls):
                self.forwards[self.best]()
            self.driver.synchronize()

    def _time_empty_call(self) -> float:
        timestamps = torch.zeros(2, dtype=torch.int64, device=self.problem.device)
        steps = []
        for _ in range(CALLS):
            self.timer.time_call(
                lambda: None,
                inputs=None,
                spin_ns=self.latencies["eager"].spin_ns,
                flush_value=0,
                timestamps=timestamps.data_ptr(),
                deliver=lambda result: None,
            )
            before, after = timestamps.tolist()
            steps.append((after - before) / 1e6)
        return median(steps)

    def _memory_floor(self) -> MemoryFloor:
        """Return the floor; an empty one, with a note, if the GPU's memory does not hold one more reference run."""
        try:
            return memory_floor(copy_of(self.case.model), self.inputs, self.problem.task.target)
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            self.notes.append("times were not held against what the memory's peak allows: no memory to count the bytes")
            return MemoryFloor(0.0, 0.0)

    def _warm_up(self, name: str) -> HostLatency:
        with pytorch_at(self.precision, self.problem.device), torch.no_grad():
            return measure_host_latency(self.forwards[name], WARMUP_SECONDS)

    def _compiled(self, model: torch.nn.Module) -> Callable[[], Any] | None:
        late = TimeoutError(f"not done within {COMPILE_SECONDS} s")
        try:
            with (
                deadline(COMPILE_SECONDS, late),
                considerate_compiler(self._access),
                pytorch_at(self.precision, self.problem.device),
                torch.no_grad(),
            ):
                if self.case.operators & SEARCHES and not self._compiles_right(model):
                    self.notes.append(
                        "torch.compile was left out: what it compiles answers otherwise than eager PyTorch"
                    )
                    return None
                compiled = torch.compile(copy_of(model))
                compiled(*self.inputs)
                torch.cuda.synchronize()
        except Exception as error:  # noqa: BLE001 - eager remains if the compiler fails
            self.notes.append(f"torch.compile failed: {one_line(error)}")
            return None
        return lambda: compiled(*self.inputs)

    def _compiles_right(self, model: torch.nn.Module) -> bool:
        """Whether compiled code answers as eager PyTorch does, where an index out of range is read and not asserted.

        A failed assertion would end this process's GPU context. PyTorch 2.11 searches a slice from the begin of the
        tensor that it is a slice of, and so finds indices out of range.
        """
        unchecked = torch.compile(copy_of(model), options={"assert_indirect_indexing": False})
        got, expected = (flatten(forward(*self.inputs))[1] for forward in (unchecked, copy_of(model)))
        return all(
            relative_difference(a, b, leaf) <= allowed_difference(leaf)
            for a, b, leaf in zip(got, expected, self.case.leaves, strict=True)
        )

    def _eager_fp32(self, model: torch.nn.Module) -> float | None:
        """Return the time of eager PyTorch in fp32 with TF32 off, as papers measure it [ms]; None if it fails."""
        if self.precision == "ieee":
            return self.milliseconds["eager"]
        ieee: Precision = "ieee"
        try:
            wide = copy_of(model).float()
            inputs = cast_inputs(self.inputs, torch.float32)
            with pytorch_at(ieee, self.problem.device), torch.no_grad():
                spin_ns = measure_host_latency(lambda: wide(*inputs), WARMUP_SECONDS).spin_ns
                times = self.timer.time_calls(
                    lambda: wide(*inputs), calls=FP32_CALLS, warmup_calls=WARMUP_CALLS, spin_ns=spin_ns
                )
        except RuntimeError as error:
            self.notes.append(f"fp32 eager failed: {one_line(error)}")
            return None
        return median(times)

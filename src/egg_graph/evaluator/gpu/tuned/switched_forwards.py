"""Time the reference with switches turned: the protocol of eager and torch.compile, in the child's process.

| switch | is |
| --- | --- |
| `cudnn.benchmark` | cuDNN measures its algorithms at the first call of each shape, and keeps the fastest |
| `channels_last`, `channels_last_3d` | weights are laid out so once, ahead of time. The inputs come as the task gives them, so that laying them out is part of the time; the answer may stay channels-last |
| max-autotune | torch.compile in its mode `max-autotune-no-cudagraphs`: the clock tells device time, in which a CUDA graph could only add copies of the inputs |

cuDNN's chosen algorithms are kept per thread, by shape and layout, whether they were searched for or guessed. A search
that follows a guess in the same thread is none. So each trial has a thread of its own, in which nothing runs before it;
a case whose tensors are made again is held by the main thread.
"""  # noqa: E501

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map_only

from egg_graph.evaluator.device.driver import CudaDriver
from egg_graph.evaluator.device.stream_timer import (
    WARMUP_CALLS,
    DeviceBuffer,
    StreamTimer,
    flush_bytes,
    measure_host_latency,
)
from egg_graph.evaluator.gpu.timing.baseline import CALLS, WARMUP_SECONDS
from egg_graph.evaluator.gpu.timing.statistics import median
from egg_graph.evaluator.gpu.tuned.plan import BENCHMARK, CHANNELS_LAST
from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.comparison import judge_leaves
from egg_graph.evaluator.problem.model_copy import copy_of
from egg_graph.evaluator.problem.precision import cast_inputs, pytorch_at
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.problem.reference import one_line
from egg_graph.evaluator.wire.exchange import flatten
from egg_graph.schema import Check, Finding, TunedTrial

LAYOUTS = {4: torch.channels_last, 5: torch.channels_last_3d}
"""Channels-last layout, by number of dimensions."""
AUTOTUNE_MODE = "max-autotune-no-cudagraphs"


class SwitchedForwards:
    """The reference at full shape, and the means to time it.

    Args:
        problem: the task.

    Raises:
        Unevaluable: if the reference's answer cannot be judged.
        torch.OutOfMemoryError: if the GPU's memory does not hold it.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.case: Case = next(problem.full_cases())
        self.flush = torch.empty(flush_bytes(), dtype=torch.uint8, device=problem.device)
        self.timer = StreamTimer(CudaDriver(), DeviceBuffer.of(self.flush))

    def measure(self, trial: TunedTrial) -> TunedTrial:
        """Compare a trial's answer with the expected one, then time it; in a thread of its own."""
        began = time.monotonic()
        measured: list[TunedTrial] = []
        try:
            with self.case.held() as case:
                thread = threading.Thread(target=lambda: measured.append(self._measured(trial, case)), daemon=True)
                thread.start()
                thread.join()
        except torch.OutOfMemoryError as error:
            measured = [_no_memory(trial, error)]
        gc.collect()  # compiled modules refer to themselves, and hold weights
        torch.cuda.empty_cache()
        return measured[0].model_copy(update={"seconds": round(time.monotonic() - began, 3)})

    def _measured(self, trial: TunedTrial, case: Case) -> TunedTrial:
        torch.cuda.synchronize()  # the driver's calls need this thread to have the GPU's context
        try:
            with (
                cudnn_benchmark(BENCHMARK in trial.switches),
                pytorch_at(self.problem.task.precision, self.problem.device),
                torch.no_grad(),
            ):
                return trial.model_copy(update=self._answered_and_timed(trial, case))
        except torch.OutOfMemoryError as error:
            return _no_memory(trial, error)
        except Exception as error:  # noqa: BLE001 - whatever PyTorch raises, the other trials go on
            return trial.model_copy(update={"outcome": "failed", "reason": one_line(error)})

    def _answered_and_timed(self, trial: TunedTrial, case: Case) -> dict[str, Any]:
        """The fields that measuring a trial fills in."""
        forward = switched(case, trial)
        findings, check = self._judge(forward, case)
        figures: dict[str, Any] = {} if check is None else {"error": check.error, "budget": check.budget}
        if findings:
            return {**figures, "outcome": "wrong", "reason": findings[0].message}
        spin_ns = measure_host_latency(forward, WARMUP_SECONDS).spin_ns
        times = self.timer.time_calls(forward, calls=CALLS, warmup_calls=WARMUP_CALLS, spin_ns=spin_ns)
        return {**figures, "outcome": "timed", "milliseconds": median(times)}

    def _judge(self, forward: Callable[[], Any], case: Case) -> tuple[list[Finding], Check | None]:
        torch.manual_seed(case.forward_seed)
        structure, leaves = flatten(forward())
        if structure != case.structure:
            message = f"it returns {structure} where the reference returns {case.structure}"
            return [Finding(kind="wrong_structure", message=message)], None
        return judge_leaves(self.problem.task, case, leaves, machine="", source="")


def _no_memory(trial: TunedTrial, error: torch.OutOfMemoryError) -> TunedTrial:
    return trial.model_copy(update={"outcome": "machine", "reason": f"no memory: {one_line(error)}"})


def switched(case: Case, trial: TunedTrial) -> Callable[[], Any]:
    """The reference's forward on copies of a case's inputs, with the trial's layout and compiler."""
    inputs = cast_inputs(case.inputs, None)
    module: nn.Module = copy_of(case.model)
    if set(trial.switches) & set(CHANNELS_LAST.values()):
        module = ChannelsLast(module)
    if trial.forward == "eager":
        return lambda: module(*inputs)
    torch._dynamo.reset()
    mode = AUTOTUNE_MODE if trial.forward == "max-autotune" else "default"
    compiled = torch.compile(module, mode=mode)
    return lambda: compiled(*inputs)


class ChannelsLast(nn.Module):
    """A module with its weights channels-last, which lays its inputs out likewise in every call.

    Args:
        module: its parameters and buffers of four and five dimensions are laid out anew.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        for tensor in (*module.parameters(), *module.buffers()):
            tensor.data = _channels_last(tensor.data)

    def forward(self, *inputs: Any) -> Any:
        return self.module(*tree_map_only(torch.Tensor, _channels_last, inputs))


def _channels_last(x: torch.Tensor) -> torch.Tensor:
    """The tensor in the channels-last layout of its number of dimensions; itself where it has none."""
    return x.contiguous(memory_format=LAYOUTS[x.dim()]) if x.dim() in LAYOUTS else x


@contextmanager
def cudnn_benchmark(on: bool) -> Iterator[None]:
    """Turn cuDNN's search on or off for the block."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = on
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before

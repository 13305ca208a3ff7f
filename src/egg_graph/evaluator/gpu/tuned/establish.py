"""Establish tuned PyTorch for a task: find it on disk, or measure it while nobody else uses the GPU."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import torch

from egg_graph.evaluator.device import interference
from egg_graph.evaluator.gpu.timing.baseline import PyTorchBaseline
from egg_graph.evaluator.gpu.tuned.kept import KeptBaselines
from egg_graph.evaluator.gpu.tuned.measurement import TunedProcess, measure_tuned
from egg_graph.evaluator.gpu.tuned.plan import CHANNELS_LAST, is_convolution
from egg_graph.schema import TunedBaseline


def establish_tuned(
    baseline: PyTorchBaseline, operators: Sequence[str], folder: Path, kept: KeptBaselines
) -> TunedBaseline:
    """Tuned PyTorch beside a measured baseline. The caller has the GPU alone.

    Args:
        baseline: eager PyTorch and torch.compile as they come, measured.
        operators: ATen operators of one forward.
        folder: private to the judge.
        kept: what earlier judges measured.
    """
    task, times = baseline.problem.task, baseline.milliseconds
    eager_ms, compile_ms = times["eager"], times.get("compile")
    found = kept.find(task, eager_ms, compile_ms)
    if found is not None:
        return found
    busy = interference.wait_until_idle(baseline.driver)
    if busy:
        return TunedBaseline(reason=busy)
    torch.cuda.empty_cache()
    convolution = is_convolution(operators)
    with TunedProcess(task, folder) as process:
        tuned = measure_tuned(
            process.ask,
            eager_ms=eager_ms,
            compile_ms=compile_ms,
            convolution=convolution,
            layout=channels_last_layout(baseline.case.state.values()) if convolution else "",
        )
    kept.keep(task, tuned)
    return tuned


def channels_last_layout(weights: Iterable[torch.Tensor]) -> str:
    """Name of the channels-last layout that these weights have; empty where none has four or five dimensions."""
    dimensions = [weight.dim() for weight in weights if weight.dim() in CHANNELS_LAST]
    return CHANNELS_LAST[max(dimensions)] if dimensions else ""

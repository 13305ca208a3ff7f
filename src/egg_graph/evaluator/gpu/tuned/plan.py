"""Which switches of PyTorch are tried on a reference, and for how long. It imports no torch."""

from __future__ import annotations

import math
from collections.abc import Iterable

from egg_graph.schema import Forward, TunedTrial

START_SECONDS = 180.0
"""Time for the process to start and to compute the expected answer [s]."""
TRIAL_SECONDS = 90.0
"""Time limit of one cheap trial, compilation and cuDNN's search included [s]."""
AUTOTUNE_SECONDS = 240.0
"""Time limit of max-autotune [s]."""
ALL_SECONDS = 600.0
"""Time limit of all trials together [s]."""
BENCHMARK = "cudnn.benchmark"
CHANNELS_LAST = {4: "channels_last", 5: "channels_last_3d"}
"""Name of the channels-last layout, by number of dimensions."""
CHEAP: tuple[Forward, ...] = ("eager", "compile")
"""Forwards that are tried under every combination of switches."""


def is_convolution(operators: Iterable[str]) -> bool:
    """Whether a forward with these ATen operators convolves."""
    return any("conv" in operator for operator in operators)


def cheap_trials(layout: str) -> tuple[TunedTrial, ...]:
    """What is tried on every reference with a convolution.

    Args:
        layout: the channels-last layout of its weights; empty where they have none (one dimension).
    """
    switches: list[tuple[str, ...]] = [(BENCHMARK,)]
    if layout:
        switches += [(layout,), (BENCHMARK, layout)]
    return tuple(TunedTrial(switches=each, forward=forward) for forward in CHEAP for each in switches)


def autotune_trial(trials: Iterable[TunedTrial], compile_ms: float | None) -> TunedTrial:
    """max-autotune, with the switches of the fastest torch.compile so far.

    Args:
        trials: the cheap trials, measured.
        compile_ms: time of torch.compile as it comes [ms]; None where it failed.
    """
    compiled = [trial for trial in trials if trial.forward == "compile" and trial.milliseconds is not None]
    fastest = min(compiled, key=lambda trial: trial.milliseconds or math.inf, default=None)
    if fastest is None or (fastest.milliseconds or math.inf) >= (compile_ms or math.inf):
        return TunedTrial(forward="max-autotune")
    return TunedTrial(switches=fastest.switches, forward="max-autotune")


def untried(convolution: bool, layout: str) -> tuple[str, ...]:
    """What is not tried on a reference, and why."""
    if not convolution:
        return (f"{BENCHMARK} and channels_last: only convolutions gain from them",)
    return () if layout else ("channels_last: there is no such layout in one dimension",)

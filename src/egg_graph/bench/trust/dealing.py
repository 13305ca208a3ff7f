"""Evaluators side by side: which GPU each of them gets."""

from typing import Literal

from egg_graph.evaluator import gpu_present
from egg_graph.evaluator.device.gpus import visible_gpus


def gpu_of(number: int, device: Literal["auto", "gpu", "none"]) -> str | None:
    """The GPU of one of several evaluators, by its UUID: they are dealt in turns; None where it gets none.

    Args:
        number: of the evaluator, from 0.
        device: ladder to evaluation.
    """
    gpus = visible_gpus() if device == "gpu" or (device == "auto" and gpu_present()) else ()
    return gpus[number % len(gpus)] if gpus else None

"""From paired measurements to a ratio with its interval."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

RESAMPLES = 4000


def ratio_interval(
    candidate: Sequence[float], baseline: Sequence[float], *, seed: int = 0
) -> tuple[float, float, float]:
    """Ratio of medians (baseline over candidate: above 1 is a speedup) and its bootstrap 95 % interval.

    Args:
        candidate: milliseconds, one per pair.
        baseline: milliseconds, in the same order; a pair was measured back to back, so both are resampled together.
        seed: of the resampling; the same measurements give the same interval.
    """
    c, b = np.asarray(candidate, float), np.asarray(baseline, float)
    index = np.random.default_rng(seed).integers(0, len(c), (RESAMPLES, len(c)))
    ratios = np.median(b[index], axis=1) / np.median(c[index], axis=1)
    low, high = np.quantile(ratios, (0.025, 0.975))
    return float(np.median(b) / np.median(c)), float(low), float(high)


def median(values: Sequence[float]) -> float:
    """Median, in the unit of the values."""
    return float(np.median(np.asarray(values, float)))

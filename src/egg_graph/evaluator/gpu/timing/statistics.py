"""Median, spread and the bootstrap interval of a ratio, from paired measurements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

RESAMPLES = 4000
"""Number of bootstrap resamples."""


def ratio_interval(
    candidate: Sequence[float], baseline: Sequence[float], *, block: int = 1, resamples: int = RESAMPLES
) -> tuple[float, float, float]:
    """Return the ratio of medians (baseline over candidate, so above 1 is a speedup) and its bootstrap 95 % interval.

    Both sides of a pair were measured back to back and are resampled together. Whole blocks are resampled, because what
    disturbs one pair may disturb its neighbours (block bootstrap). The same measurements give the same interval.

    Args:
        candidate: time of the candidate [ms], one per pair.
        baseline: time of the baseline [ms], in the same order.
        block: pairs that were measured together; the number of pairs is a multiple of it.
        resamples: number of bootstrap resamples.

    Returns:
        Ratio, lower and upper end of the interval.
    """
    c, b = np.asarray(candidate, float), np.asarray(baseline, float)
    blocks = np.random.default_rng(0).integers(0, len(c) // block, (resamples, len(c) // block))
    index = (blocks[:, :, None] * block + np.arange(block)).reshape(resamples, -1)
    ratios = np.median(b[index], axis=1) / np.median(c[index], axis=1)
    low, high = np.quantile(ratios, (0.025, 0.975))
    return float(np.median(b) / np.median(c)), float(low), float(high)


def median(values: Sequence[float]) -> float:
    """Return the median, in the unit of the values."""
    return float(np.median(np.asarray(values, float)))


def spread(values: Sequence[float]) -> float:
    """Return half of the interquartile range, in the unit of the values."""
    low, high = np.quantile(np.asarray(values, float), (0.25, 0.75))
    return float(high - low) / 2


def lower_spread(values: Sequence[float]) -> float:
    """Return the distance from the least value to the lower quartile, in the unit of the values."""
    least, low = np.quantile(np.asarray(values, float), (0.0, 0.25))
    return float(low - least)

"""From paired measurements to a ratio with its interval."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

RESAMPLES = 4000


def ratio_interval(
    candidate: Sequence[float], baseline: Sequence[float], *, block: int = 1, seed: int = 0
) -> tuple[float, float, float]:
    """Ratio of medians (baseline over candidate: above 1 is a speedup) and its bootstrap 95 % interval.

    Args:
        candidate: milliseconds, one per pair.
        baseline: milliseconds, in the same order; a pair was measured back to back, so both are resampled together.
        block: pairs that were measured together; what disturbs one may disturb its neighbours, so whole blocks are
            resampled. The number of pairs is a multiple of it.
        seed: of the resampling; the same measurements give the same interval.
    """
    c, b = np.asarray(candidate, float), np.asarray(baseline, float)
    blocks = np.random.default_rng(seed).integers(0, len(c) // block, (RESAMPLES, len(c) // block))
    index = (blocks[:, :, None] * block + np.arange(block)).reshape(RESAMPLES, -1)
    ratios = np.median(b[index], axis=1) / np.median(c[index], axis=1)
    low, high = np.quantile(ratios, (0.025, 0.975))
    return float(np.median(b) / np.median(c)), float(low), float(high)


def median(values: Sequence[float]) -> float:
    """Median, in the unit of the values."""
    return float(np.median(np.asarray(values, float)))

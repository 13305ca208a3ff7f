"""Recorded calls of candidate and baseline, collected until there are enough pairs."""

from __future__ import annotations

import time
from collections.abc import Callable

from egg_graph.evaluator.gpu.timing.session import PairedBlock
from egg_graph.evaluator.gpu.timing.statistics import median, ratio_interval, spread
from egg_graph.schema.evaluation import RESOLUTION

FEWEST_PAIRS, MOST_PAIRS = 32, 120
TIME_BOX_SECONDS = 1.5
"""Time after which no further block begins once there are `FEWEST_PAIRS` pairs [s], by the judge's clock. The pairs
come first, so a candidate that sleeps is not measured less."""
FEWEST_STEADY, STEADY = 12, 0.0025
"""Pairs are steady if there are so many, and half of the interquartile range of their ratios is at most this part of
the median. Steady pairs suffice within the time if there are `FEWEST_PAIRS`, and any number after it: gigabytes of
inputs make a pair expensive."""
CLEAR_WIDTH, CLEAR_DISTANCE = 0.02, 3.0
"""Pairs are clear if the 95 % interval of the ratio is at most this part of the ratio wide, and the ratio is so many
widths from 1: no further pair would change the verdict, and `FEWEST_PAIRS` suffice."""
FEW_RESAMPLES = 400
"""Bootstrap resamples of that interval, which is asked for after every block."""
CEILING_SECONDS = 120.0
"""Time after which no further block begins once there are `FEWEST_AT_CEILING` pairs [s]; a note says so."""
FEWEST_AT_CEILING = 5


class PairedSamples:
    """Recorded calls of both sides. The n-th calls of both are on the same inputs and make a pair.

    Args:
        thorough: whether to measure on, within the time, where the verdict is clear.
    """

    def __init__(self, *, thorough: bool = False) -> None:
        self.thorough = thorough
        self.block = 1
        """Pairs that were measured together."""
        self.candidate_ms: list[float] = []
        """Time of each of the candidate's calls, by CUDA events [ms]."""
        self.baseline_ms: list[float] = []
        """Time of each of the baseline's calls, by CUDA events [ms]."""
        self.timestamps: list[tuple[int, int]] = []
        """The GPU's clock before and after each of the candidate's calls [ns]."""
        self.baseline_timestamps: list[tuple[int, int]] = []
        """The GPU's clock before and after each of the baseline's calls [ns]."""
        self.queue_ms: list[float] = []
        """Time until each of the candidate's forwards returned, by its host's clock [ms]."""

    @property
    def pairs(self) -> int:
        """Number of pairs."""
        return len(self.candidate_ms)

    @property
    def steady(self) -> bool:
        """Whether the ratios of few pairs say enough."""
        if self.pairs < FEWEST_STEADY:
            return False
        ratios = [b / c for b, c in zip(self.baseline_ms, self.candidate_ms, strict=True)]
        return spread(ratios) <= STEADY * median(ratios)

    @property
    def clear(self) -> bool:
        """Whether the verdict is beyond doubt."""
        ratio, low, high = ratio_interval(
            self.candidate_ms, self.baseline_ms, block=self.block, resamples=FEW_RESAMPLES
        )
        width = high - low
        return width <= CLEAR_WIDTH * ratio and abs(ratio - 1) >= CLEAR_DISTANCE * width + RESOLUTION

    def _enough(self, *, overtime: bool) -> bool:
        """Whether further pairs would say no more than they cost."""
        if self.pairs < FEWEST_PAIRS:
            return overtime and self.steady
        return overtime or self.steady or (not self.thorough and self.clear)

    def collect(self, measure_block: Callable[[], PairedBlock | None]) -> bool:
        """Measure blocks until there are enough pairs; returns False as soon as a block is None."""
        started = time.monotonic()
        while self.pairs < MOST_PAIRS:
            spent = time.monotonic() - started
            if self._enough(overtime=spent > TIME_BOX_SECONDS):
                break
            if spent > CEILING_SECONDS and self.pairs >= FEWEST_AT_CEILING:
                break
            block = measure_block()
            if block is None:
                return False
            self.block = len(block.candidate_ms)
            self.candidate_ms += block.candidate_ms
            self.baseline_ms += block.baseline_ms
            self.timestamps += block.timestamps
            self.baseline_timestamps += block.baseline_timestamps
            self.queue_ms += block.queue_ms
        return True

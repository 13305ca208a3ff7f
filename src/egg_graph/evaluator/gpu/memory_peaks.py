"""Peak GPU memory of the judge's own process, and of the baseline in it.

PyTorch keeps one peak for a process. Whoever sets it back notes it before, so that no peak is lost. A GPU that was not
opened yet has none.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from egg_graph.evaluator.spending import note_peak


@contextmanager
def judge_peak() -> Iterator[None]:
    """Note the most that the allocator holds during the block, as the judge's."""
    _begin_anew()
    try:
        yield
    finally:
        _note_judge()


@contextmanager
def baseline_peak() -> Iterator[None]:
    """Note what is allocated during the block beyond what was allocated before, as the baseline's."""
    _note_judge()
    _begin_anew()
    before = torch.cuda.memory_allocated() if torch.cuda.is_initialized() else 0
    try:
        yield
    finally:
        if torch.cuda.is_initialized():
            note_peak("baseline", max(0, torch.cuda.max_memory_allocated() - before))
        _note_judge()


def _begin_anew() -> None:
    if torch.cuda.is_initialized():
        torch.cuda.reset_peak_memory_stats()


def _note_judge() -> None:
    if torch.cuda.is_initialized():
        note_peak("judge", torch.cuda.max_memory_reserved())

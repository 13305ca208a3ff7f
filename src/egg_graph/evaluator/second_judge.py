"""What `LocalEvaluator` needs for finalists: kernels that it has measured, and a second judge that is made ahead."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from egg_graph.evaluator.client import WarmingJudge
from egg_graph.schema import Candidate, Evaluation, KernelTask

MOST_MEASURED = 64
"""Kernels whose evaluation is kept."""


class MeasuredKernels:
    """The latest evaluations of timed kernels, by task and candidate."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str], tuple[Candidate, Evaluation]] = OrderedDict()

    def add(self, task: KernelTask, candidate: Candidate, evaluation: Evaluation) -> None:
        """Keep an evaluation, if the kernel is right and was timed."""
        if evaluation.usable and evaluation.timing is not None:
            self._kept[task.digest, candidate.id] = candidate, evaluation
            while len(self._kept) > MOST_MEASURED:
                self._kept.popitem(last=False)

    def find(self, task: KernelTask, candidate: Candidate) -> Evaluation | None:
        """The evaluation of this kernel, or of its parent, if it is the parent with its knobs as plain constants."""
        _, evaluation = self._kept.get((task.digest, candidate.id), (None, None))
        if evaluation is None and candidate.parent and candidate.config:
            parent, measured = self._kept.get((task.digest, candidate.parent), (None, None))
            evaluation = measured if parent is not None and parent.config == candidate.config else None
        return evaluation


class SecondJudge:
    """The judge of finalists. Each judges one finalist; the next one imports while the first judge evaluates others.

    Args:
        settings: as for `JudgeClient`, of the first judge.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        # The first judge has profiled the kernel already, unless finalists alone are profiled.
        self.settings = {**settings, "profile": settings["profile"] == "finalists" and "finalists"}
        self._ready: WarmingJudge | None = None
        self._lock = threading.Lock()
        self.used = False
        """Whether a finalist was judged."""

    def make_ahead(self, task: KernelTask) -> None:
        """Start it, unless one is ready. It finds the shapes of this task ahead, and may judge another one."""
        with self._lock:
            if self._ready is None:
                self._ready = WarmingJudge(self.settings, task.model_dump(mode="json"))

    @contextmanager
    def started_for(self, task: KernelTask) -> Iterator[WarmingJudge]:
        """The judge of one finalist, for the block."""
        self.used = True
        with self._take() or WarmingJudge(self.settings, task.model_dump(mode="json")) as judge:
            yield judge

    def close(self) -> None:
        """End the one that is ready."""
        if (judge := self._take()) is not None:
            judge.close()

    def _take(self) -> WarmingJudge | None:
        with self._lock:
            judge, self._ready = self._ready, None
        return judge

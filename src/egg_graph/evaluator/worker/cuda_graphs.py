"""Record what CUDA graphs capture, and decide what happens at each replay.

A replay launches nothing that Python could see. What it will launch is known from its capture alone.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from egg_graph.evaluator.worker.launches import (
    ForwardRecord,
    OperatorRecorder,
    candidate_path,
    intercept_launches,
    recording_launch,
)

Replay = Callable[[Any, Callable[[Any], None]], None]
captures: dict[int, ForwardRecord] = {}
"""What the capture of each CUDA graph recorded, by `id` of the graph."""
_replacements: list[Replay] = []
"""What runs in place of a replay. The last one counts; if there is none, the replay itself runs."""


@functools.cache
def record_captures() -> None:
    """Record the capture of every CUDA graph from now on. Call this before the candidate's module is loaded."""
    graph = torch.cuda.CUDAGraph
    begin, end = graph.capture_begin, graph.capture_end
    open_captures: dict[int, contextlib.ExitStack] = {}

    def capture_begin(self: Any, *args: Any, **keywords: Any) -> Any:
        result = begin(self, *args, **keywords)
        record, stack = ForwardRecord(), contextlib.ExitStack()
        stack.enter_context(intercept_launches(recording_launch(record, candidate_path(None), timed=False)))
        stack.enter_context(OperatorRecorder(record))
        captures[id(self)], open_captures[id(self)] = record, stack
        return result

    def capture_end(self: Any, *args: Any, **keywords: Any) -> Any:
        open_captures.pop(id(self), contextlib.ExitStack()).close()
        return end(self, *args, **keywords)

    graph.capture_begin, graph.capture_end = capture_begin, capture_end
    make_replays_replaceable()


def make_replays_replaceable() -> None:
    """Let every replay ask what to do, also one that a module keeps as `graph.replay`."""
    graph = torch.cuda.CUDAGraph
    real = graph.replay

    def replay(self: Any) -> None:
        if _replacements:
            _replacements[-1](self, real)
        else:
            real(self)

    graph.replay = replay


@contextlib.contextmanager
def replace_replays(replacement: Replay) -> Iterator[None]:
    """Run `replacement(graph, replay)` in place of every `CUDAGraph.replay` within the block."""
    _replacements.append(replacement)
    try:
        yield
    finally:
        _replacements.pop()

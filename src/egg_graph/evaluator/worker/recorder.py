"""Run a candidate's forward in its own process while recording what it launches and calls, or with kernels left out.

Import this module, and call `record_captures`, before the candidate's module is loaded: whatever a candidate replaces
later, the references held here stay. The process is the candidate's, so what is recorded here is a testimony.
`evidence.integrity` weighs it, and `tools.device_trace` asks the device itself.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from egg_graph.evaluator.aot.pruning import why_pruned
from egg_graph.evaluator.worker.cuda_graphs import captures, record_captures, replace_replays
from egg_graph.evaluator.worker.launches import (
    ForwardRecord,
    OperatorRecorder,
    between_events,
    candidate_path,
    describe_launch,
    intercept_launches,
    is_own_kernel,
    recording_launch,
)
from egg_graph.evaluator.worker.makers import Makers
from egg_graph.schema import Hardware

__all__ = ["KernelsNotSeparable", "first_forward", "record_captures", "record_forward", "silence_kernels"]

SPIN_CYCLES = 20_000_000
"""GPU clock cycles of the spin before a timed forward, about 10 ms: the host queues the whole forward meanwhile."""
TIMED_FORWARDS = 2
"""Timed forwards. The last one counts; the first brings clocks and caches to their steady state."""
_Event = torch.cuda.Event
_record_event, _elapsed = torch.cuda.Event.record, torch.cuda.Event.elapsed_time
_synchronize = torch.cuda.synchronize


class KernelsNotSeparable(Exception):
    """The candidate's kernels cannot be left out alone: a CUDA graph replays them together with library work."""


class LaunchPruned(Exception):
    """A launch was not made because of what the compiler made of its kernel."""


def first_forward(forward: Callable[[], Any], hardware: Hardware | None, path: Path | None = None) -> dict[str, Any]:
    """Run a forward, and look at every own launch after its kernel is compiled and before it is made.

    Args:
        forward: one call of the candidate on the present inputs.
        hardware: the first launch that something speaks against there (`why_pruned`) is not made, and the forward ends;
            None makes all.
        path: file of the candidate; `candidate.py` of the working folder if None.

    Returns:
        As JSON: `launches` (as `describe_launch` tells them, each kernel once for each way in which it was compiled),
        and `pruned` (kernel and reason of the launch that was not made; empty where all were).
    """
    own, seen, pruned = candidate_path(path), dict[str, dict[str, Any]](), list[str]()

    def launch(compiled: Any, run: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        if is_own_kernel(compiled, own):
            told = describe_launch(compiled, arguments[:3])
            seen.setdefault(repr({**told, "grid": None}), told)
            why = "" if hardware is None else _why_pruned(told, hardware)
            if why:
                pruned.append(f"{told['kernel']}: {why}")
                raise LaunchPruned(why)
        return run(*arguments, **keywords)

    with intercept_launches(launch):
        try:
            forward()
        except Exception:
            if not pruned:
                raise
    return {"launches": list(seen.values()), "pruned": pruned[0] if pruned else ""}


def _why_pruned(told: dict[str, Any], hardware: Hardware) -> str:
    return why_pruned(
        hardware,
        warps=told["num_warps"],
        registers=told["registers"],
        shared=told["shared"],
        spill_bytes=4 * (told["spills"] or 0),
    )


def record_forward(
    forward: Callable[[], Any], path: Path | None = None, *, given: Iterable[torch.Tensor] = ()
) -> dict[str, Any]:
    """Record what a forward launches and calls, and the part of GPU time in own launches.

    It runs three forwards: one for the operators, and two for the time. The timed ones run behind a spin of the GPU and
    with no operator intercepted, so that the host's work leaves no gaps. A replayed CUDA graph counts with what its
    capture recorded; its time counts as own only if own kernels alone were captured.

    Args:
        forward: one call of the candidate on the present inputs, warmed up.
        path: file of the candidate; `candidate.py` of the working folder if None.
        given: its inputs, parameters and buffers.

    Returns:
        As JSON: `launches` (resources and grid of every own launch), `operators` (names in order, each once),
        `results` (size [bytes] by operator), `library_read` (bytes that computing operators read), `read_back` (numbers
        copied to the host, by operator), `made_by` (the operator that had computed the answer alone, if one had),
        `copied` (whether an operator was handed a kernel's plain copy), `foreign` (names of other Triton kernels),
        `graphs` and `unseen_graphs` (counts), `compilers` (names of those that ran beside Triton), `share` (part of GPU
        time in own launches, 0 to 1), `total_ms` (GPU time of one forward [ms]).
    """
    makers = Makers(given)
    own, seen = candidate_path(path), ForwardRecord(makers=makers)
    with (
        intercept_launches(recording_launch(seen, own, timed=False)),
        replace_replays(lambda graph, replay: _record_replay(seen, graph, replay, timed=False)),
        OperatorRecorder(seen),
    ):
        output = forward()
        _synchronize()
    made_by = makers.maker(output)
    del output
    for _ in range(TIMED_FORWARDS):
        record, own_ms, total_ms = _time_forward(forward, own)
    return {
        "launches": record.launches,
        "operators": list(dict.fromkeys([*seen.operators, *record.operators])),
        "results": seen.results,
        "library_read": seen.library_read,
        "read_back": seen.read_back,
        "made_by": made_by,
        "copied": makers.copied,
        "foreign": list(dict.fromkeys([*seen.foreign, *record.foreign])),
        "graphs": record.graphs,
        "unseen_graphs": record.unseen_graphs,
        "compilers": _other_compilers(),
        "share": min(1.0, own_ms / total_ms) if total_ms > 0 else 0.0,
        "total_ms": total_ms,
    }


def _time_forward(forward: Callable[[], Any], own: str) -> tuple[ForwardRecord, float, float]:
    """Time a forward behind a spin; returns its record, and the GPU time in own launches and in all [ms]."""
    record = ForwardRecord()
    start, end = _Event(enable_timing=True), _Event(enable_timing=True)
    torch.cuda._sleep(SPIN_CYCLES)
    with (
        intercept_launches(recording_launch(record, own, timed=True)),
        replace_replays(lambda graph, replay: _record_replay(record, graph, replay, timed=True)),
    ):
        _record_event(start)
        forward()
        _record_event(end)
        _synchronize()
    return record, sum(_elapsed(a, b) for a, b in record.events), _elapsed(start, end)


def _record_replay(record: ForwardRecord, graph: Any, replay: Callable[[Any], None], *, timed: bool) -> None:
    """Replay a CUDA graph, and add what its capture recorded."""
    captured = captures.get(id(graph))
    record.graphs += 1
    if captured is None:
        record.unseen_graphs += 1
        replay(graph)
        return
    record.launches += captured.launches
    record.foreign += captured.foreign
    record.operators += captured.operators
    if timed and captured.only_own_kernels_compute:
        with between_events(record):
            replay(graph)
    else:
        replay(graph)


def _other_compilers() -> list[str]:
    """Name the compilers beside Triton's own that compiled frames of this process."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    if dynamo is not None and dynamo.counters["frames"]["total"]:
        return ["torch.compile"]
    return []


def silence_kernels(forward: Callable[[], Any], path: Path | None = None) -> Any:
    """Run a forward with its own Triton kernels left out, while everything else runs; returns its answer.

    Args:
        forward: as for `record_forward`; warmed up, so that an autotuner has chosen before.
        path: file of the candidate; `candidate.py` of the working folder if None.

    Raises:
        KernelsNotSeparable: if a CUDA graph holds own kernels and library work together, or its capture was not seen.
        Exception: whatever the forward raises because it needed what the kernels compute.
    """
    own = candidate_path(path)

    def launch(compiled: Any, run: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        return None if is_own_kernel(compiled, own) else run(*arguments, **keywords)

    def replay_without_own(graph: Any, replay: Callable[[Any], None]) -> None:
        captured = captures.get(id(graph))
        if captured is None or (captured.launches and not captured.only_own_kernels_compute):
            raise KernelsNotSeparable("a CUDA graph replays the Triton kernels together with other work")
        if not captured.launches:
            replay(graph)

    with intercept_launches(launch), replace_replays(replay_without_own):
        output = forward()
        _synchronize()
    return output

"""What happens in the candidate's process while its forward runs, noted from inside.

Imported, and `attend`ed, before the candidate's module: whatever a candidate replaces later, the references held here
stay. A candidate's own kernels are the JIT functions that its file defines; those of anyone else (another compiler's,
a library's) are foreign. The process is the candidate's, so this is a witness, not a judge: `integrity` weighs the
word, and `trace` asks the device itself.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from egg_graph.evaluator.host.library_state import fingerprint

__all__ = ["NotSilenced", "attend", "fingerprint", "silence", "watch"]

CANDIDATE = "candidate.py"
SPIN_CYCLES = 20_000_000
"""About 10 ms on the GPU: long enough for the host to queue a whole forward behind it."""
TIMED_FORWARDS = 2
"""The last one counts; the first brings the clock and the caches to where they stay."""
_Event = torch.cuda.Event
_leaves = torch.utils._pytree.tree_leaves
_record, _elapsed, _synchronize = torch.cuda.Event.record, torch.cuda.Event.elapsed_time, torch.cuda.synchronize


class NotSilenced(Exception):
    """The candidate's kernels cannot be left out alone: a CUDA graph replays them together with library work."""


@dataclass
class Record:
    """What one stretch of the candidate's run launched and called."""

    launches: list[dict[str, Any]] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    """Triton kernels of other files, in order."""
    operators: list[str] = field(default_factory=list)
    results: dict[str, int] = field(default_factory=dict)
    """Bytes of all results of each operator."""
    read_back: dict[str, int] = field(default_factory=dict)
    """Numbers copied from the GPU to the host, by the operator that did."""
    graphs: int = 0
    """CUDA graphs replayed."""
    unseen_graphs: int = 0
    """Those of them whose capture nobody saw."""
    events: list[tuple[Any, Any]] = field(default_factory=list)

    def note(self, name: str, operands: list[Any], result: Any) -> None:
        """One operator that ran."""
        self.operators.append(name)
        nbytes = sum(x.numel() * x.element_size() for x in _leaves(result) if isinstance(x, torch.Tensor))
        self.results[name] = nbytes + self.results.get(name, 0)
        if number := _moved_to_host(name, operands, result):
            self.read_back[name] = number + self.read_back.get(name, 0)

    @property
    def pure(self) -> bool:
        """Nothing but the candidate's own kernels computes (see `integrity.computing` for the operators)."""
        from egg_graph.evaluator.wire.operators import computing

        return bool(self.launches) and not self.foreign and not computing(self.operators) and not self.unseen_graphs


Replay = Callable[[Any, Callable[[Any], None]], None]
_captured: dict[int, Record] = {}
"""By id of a CUDA graph: what its capture recorded."""
_instead: list[Replay] = []
"""What to do in place of a replay; the last one counts, and none means the replay itself."""


# ---------------------------------------------------------------------------------------------------- CUDA graphs


@functools.cache
def attend() -> None:
    """From now on note what every CUDA graph captures. To be called before the candidate's module is loaded.

    A replay launches nothing that Python could see; what it will launch is known from the capture alone.
    """
    graph = torch.cuda.CUDAGraph
    begin, end = graph.capture_begin, graph.capture_end
    open_captures: dict[int, contextlib.ExitStack] = {}

    def capture_begin(self: Any, *args: Any, **keywords: Any) -> Any:
        result = begin(self, *args, **keywords)
        record, stack = Record(), contextlib.ExitStack()
        stack.enter_context(_intercepted(_noting(record, _own_file(None), timed=False)))
        stack.enter_context(_Operators(record))
        _captured[id(self)], open_captures[id(self)] = record, stack
        return result

    def capture_end(self: Any, *args: Any, **keywords: Any) -> Any:
        open_captures.pop(id(self), contextlib.ExitStack()).close()
        return end(self, *args, **keywords)

    graph.capture_begin, graph.capture_end = capture_begin, capture_end
    _attend_replays()


def _attend_replays() -> None:
    """Every replay asks what to do: also one that a module keeps as `graph.replay`."""
    graph = torch.cuda.CUDAGraph
    real = graph.replay

    def replay(self: Any) -> None:
        if _instead:
            _instead[-1](self, real)
        else:
            real(self)

    graph.replay = replay


@contextlib.contextmanager
def _replays(instead: Replay) -> Iterator[None]:
    """`instead(graph, replay)` runs in place of every `CUDAGraph.replay`, from `attend` on."""
    _instead.append(instead)
    try:
        yield
    finally:
        _instead.pop()


# -------------------------------------------------------------------------------------------------------- launches


@contextlib.contextmanager
def _intercepted(launch: Callable[..., Any]) -> Iterator[None]:
    """`launch(compiled, run, *arguments)` runs in place of every launch of a compiled Triton kernel.

    `CompiledKernel.run` is where all ways meet: `kernel[grid](...)`, the autotuner, and a compiled kernel that the
    candidate kept and launches itself.
    """
    from triton.compiler.compiler import CompiledKernel

    original: Any = CompiledKernel.__dict__["run"]

    def run(self: Any) -> Callable[..., Any]:
        real = original.__get__(self, CompiledKernel)
        return lambda *arguments, **keywords: launch(self, real, *arguments, **keywords)

    CompiledKernel.run = property(run)
    try:
        yield
    finally:
        CompiledKernel.run = original


def _noting(record: Record, path: str, *, timed: bool) -> Callable[..., Any]:
    """A launch that is noted, and between two events if `timed`."""

    def launch(compiled: Any, run: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        if not _is_own(compiled, path):
            record.foreign.append(str(compiled.metadata.name))
            return run(*arguments, **keywords)
        record.launches.append(_resources(compiled, arguments[:3]))
        if not timed or torch.cuda.is_current_stream_capturing():
            return run(*arguments, **keywords)
        with _between_events(record):
            return run(*arguments, **keywords)

    return launch


@contextlib.contextmanager
def _between_events(record: Record) -> Iterator[None]:
    before, after = _Event(enable_timing=True), _Event(enable_timing=True)
    _record(before)
    yield
    _record(after)
    record.events.append((before, after))


def _is_own(compiled: Any, path: str) -> bool:
    code = getattr(getattr(getattr(compiled.src, "fn", None), "fn", None), "__code__", None)
    return code is not None and code.co_filename == path


def _own_file(path: Path | None) -> str:
    return str((path or Path(CANDIDATE)).resolve())


def _resources(compiled: Any, grid: tuple[Any, ...]) -> dict[str, Any]:
    """What the driver made of a launched kernel, as JSON. The grid's trailing ones are left out."""
    sizes = [int(n) for n in grid]
    while len(sizes) > 1 and sizes[-1] == 1:
        sizes.pop()
    metadata = compiled.metadata
    return {
        "kernel": str(metadata.name),
        "grid": sizes,
        "num_warps": int(metadata.num_warps),
        "num_stages": int(getattr(metadata, "num_stages", 0)),
        "registers": compiled.n_regs,
        "spills": compiled.n_spills,
        "shared": int(metadata.shared),
    }


# ------------------------------------------------------------------------------------------------------- operators


class _Operators(TorchDispatchMode):
    """Notes every operator that reaches the dispatcher, as `aten.mm.default`.

    An operator that the candidate registered itself is no answer: what runs inside it is noted instead.
    """

    BUILT_IN = frozenset({"aten", "prim", "prims", "profiler", "quantized", "c10d", "_c10d_functional", "torchvision"})

    def __init__(self, record: Record) -> None:
        super().__init__()
        self.record = record

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function.namespace in self.BUILT_IN:
            result = function(*args, **(kwargs or {}))
            self.record.note(str(function), _leaves((args, kwargs)), result)
            return result
        on_gpu = any(isinstance(x, torch.Tensor) and x.is_cuda for x in _leaves((args, kwargs)))
        key = torch._C.DispatchKey.CUDA if on_gpu else torch._C.DispatchKey.CPU
        with _Operators(self.record):  # straight to the implementation: past the dispatcher no mode would see inside
            return function.redispatch(torch._C.DispatchKeySet(key), *args, **(kwargs or {}))


def _moved_to_host(name: str, operands: list[Any], result: Any) -> int:
    """Numbers of the GPU's that an operator hands to the host: as a tensor there, or as a number of Python's."""
    if "_like" in name or ".new_" in name or not any(isinstance(x, torch.Tensor) and x.is_cuda for x in operands):
        return 0
    if isinstance(result, bool | int | float | complex):
        return 1
    return sum(x.numel() for x in _leaves(result) if isinstance(x, torch.Tensor) and x.is_cpu)


# ------------------------------------------------------------------------------------------------------------ watch


def watch(forward: Callable[[], Any], path: Path | None = None) -> dict[str, Any]:
    """Note what a forward launches and calls.

    Three forwards: one for the operators, and two for time, behind a spin of the GPU and with no operator watched, so
    that the host's work leaves no gaps. A replayed CUDA graph counts with what its capture recorded; its time is the
    candidate's own only where nothing but own kernels was captured.

    Args:
        forward: one call of the candidate on the inputs at hand, warmed up.
        path: of the candidate's file; `candidate.py` of the working folder if None.

    Returns:
        As JSON: `launches` (resources and grid of every own launch), `operators` (names in order, each once),
        `results` (their bytes, by operator), `read_back` (numbers copied to the host, by operator),
        `foreign` (other Triton kernels), `graphs`, `unseen_graphs`, `compilers` (that ran beside Triton), `share`
        (part of GPU time in own launches), `total_ms`.
    """
    own, seen = _own_file(path), Record()
    with (
        _intercepted(_noting(seen, own, timed=False)),
        _replays(lambda graph, replay: _replayed(seen, graph, replay, timed=False)),
        _Operators(seen),
    ):
        forward()
        _synchronize()
    for _ in range(TIMED_FORWARDS):
        record = Record()
        start, end = _Event(enable_timing=True), _Event(enable_timing=True)
        torch.cuda._sleep(SPIN_CYCLES)
        with (
            _intercepted(_noting(record, own, timed=True)),
            _replays(lambda graph, replay, to=record: _replayed(to, graph, replay, timed=True)),  # type: ignore[misc]
        ):
            _record(start)
            forward()
            _record(end)
            _synchronize()
    spent, total = sum(_elapsed(a, b) for a, b in record.events), _elapsed(start, end)
    return {
        "launches": record.launches,
        "operators": list(dict.fromkeys([*seen.operators, *record.operators])),
        "results": seen.results,
        "read_back": seen.read_back,
        "foreign": list(dict.fromkeys([*seen.foreign, *record.foreign])),
        "graphs": record.graphs,
        "unseen_graphs": record.unseen_graphs,
        "compilers": _compilers(),
        "share": min(1.0, spent / total) if total > 0 else 0.0,
        "total_ms": total,
    }


def _replayed(record: Record, graph: Any, replay: Callable[[Any], None], *, timed: bool) -> None:
    """One replay, with what the graph's capture recorded."""
    inside = _captured.get(id(graph))
    record.graphs += 1
    if inside is None:
        record.unseen_graphs += 1
        replay(graph)
        return
    record.launches += inside.launches
    record.foreign += inside.foreign
    record.operators += inside.operators
    if timed and inside.pure:
        with _between_events(record):
            replay(graph)
    else:
        replay(graph)


def _compilers() -> list[str]:
    """Compilers other than Triton's own that took frames of this process."""
    found = []
    dynamo = sys.modules.get("torch._dynamo.utils")
    if dynamo is not None and dynamo.counters["frames"]["total"]:
        found.append("torch.compile")
    return found


# ---------------------------------------------------------------------------------------------------------- silence


def silence(forward: Callable[[], Any], path: Path | None = None) -> Any:
    """The answer of a forward whose own Triton kernels do nothing, while everything else runs.

    Args:
        forward: as for `watch`; warmed up, so that an autotuner has chosen before.
        path: of the candidate's file; `candidate.py` of the working folder if None.

    Raises:
        NotSilenced: if a CUDA graph holds own kernels and library work together, or was captured unseen.
        Exception: whatever the forward raises; it needed what the kernels compute.
    """
    own = _own_file(path)

    def launch(compiled: Any, run: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        return None if _is_own(compiled, own) else run(*arguments, **keywords)

    def replayed(graph: Any, replay: Callable[[Any], None]) -> None:
        inside = _captured.get(id(graph))
        if inside is None or (inside.launches and not inside.pure):
            raise NotSilenced("a CUDA graph replays the Triton kernels together with other work")
        if not inside.launches:
            replay(graph)

    with _intercepted(launch), _replays(replayed):
        output = forward()
        _synchronize()
    return output

"""Intercept what a candidate's forward launches and calls: Triton kernels and PyTorch operators.

A candidate's own kernels are the JIT functions that its file defines. All other Triton kernels (another compiler's, a
library's) are foreign.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from egg_graph.evaluator.wire.operators import computing
from egg_graph.evaluator.worker.makers import Makers

CANDIDATE = "candidate.py"
# A candidate may replace these functions later; the references taken here stay.
_Event = torch.cuda.Event
_record_event = torch.cuda.Event.record
_leaves = torch.utils._pytree.tree_leaves


@dataclass
class ForwardRecord:
    """What one stretch of the candidate's run launched and called."""

    launches: list[dict[str, Any]] = field(default_factory=list)
    """Launches of own kernels in order, as `describe_launch` tells them."""
    foreign: list[str] = field(default_factory=list)
    """Names of launched Triton kernels of other files, in order."""
    operators: list[str] = field(default_factory=list)
    """Names of called operators in order, as `aten.mm.default`."""
    results: dict[str, int] = field(default_factory=dict)
    """Size of all results, by operator [bytes]."""
    library_read: int = 0
    """Size of all operands of operators that compute [bytes]."""
    read_back: dict[str, int] = field(default_factory=dict)
    """How many numbers were copied from the GPU to the host, by operator."""
    graphs: int = 0
    """How many CUDA graphs were replayed."""
    unseen_graphs: int = 0
    """How many of them were captured before anything was recorded."""
    makers: Makers | None = None
    """Follows which results operators computed alone; None where nobody asks."""
    events: list[tuple[Any, Any]] = field(default_factory=list)
    """CUDA events before and after each own launch, where launches are timed."""

    def add_operator(self, name: str, operands: list[Any], result: Any) -> None:
        """Add one operator that ran."""
        self.operators.append(name)
        if self.makers is not None:
            self.makers.note_operator(name, [x for x in operands if isinstance(x, torch.Tensor)], result)
        self.results[name] = _size(_leaves(result)) + self.results.get(name, 0)
        if computing((name,)):
            self.library_read += _size(operands)
        if number := count_moved_to_host(name, operands, result):
            self.read_back[name] = number + self.read_back.get(name, 0)

    @property
    def only_own_kernels_compute(self) -> bool:
        """Whether own kernels were launched and nothing else computed (`wire.operators` says which operators do)."""
        return bool(self.launches) and not self.foreign and not computing(self.operators) and not self.unseen_graphs


def _size(values: list[Any]) -> int:
    return sum(x.numel() * x.element_size() for x in values if isinstance(x, torch.Tensor))


@contextlib.contextmanager
def intercept_launches(launch: Callable[..., Any]) -> Iterator[None]:
    """Run `launch(compiled, run, *arguments)` in place of every launch of a compiled Triton kernel.

    Every launch passes `CompiledKernel.run`: `kernel[grid](...)`, the autotuner's, and that of a compiled kernel which
    the candidate kept and launches itself.
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


def recording_launch(record: ForwardRecord, path: str, *, timed: bool) -> Callable[..., Any]:
    """Return a launch function for `intercept_launches` that adds each launch to a record.

    Args:
        record: gets the launches.
        path: file of the candidate, by which own kernels are told from foreign ones.
        timed: whether own launches run between two CUDA events.
    """

    def launch(compiled: Any, run: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
        if not is_own_kernel(compiled, path):
            record.foreign.append(str(compiled.metadata.name))
            return run(*arguments, **keywords)
        record.launches.append(describe_launch(compiled, arguments[:3]))
        if record.makers is not None:
            record.makers.note_launch(arguments)
        if not timed or torch.cuda.is_current_stream_capturing():
            return run(*arguments, **keywords)
        with between_events(record):
            return run(*arguments, **keywords)

    return launch


@contextlib.contextmanager
def between_events(record: ForwardRecord) -> Iterator[None]:
    """Record a CUDA event before and after the block."""
    before, after = _Event(enable_timing=True), _Event(enable_timing=True)
    _record_event(before)
    yield
    _record_event(after)
    record.events.append((before, after))


def is_own_kernel(compiled: Any, path: str) -> bool:
    """Whether the candidate's file defines the JIT function of a compiled kernel."""
    code = getattr(getattr(getattr(compiled.src, "fn", None), "fn", None), "__code__", None)
    return code is not None and code.co_filename == path


def candidate_path(path: Path | None) -> str:
    """Return the candidate's file as `co_filename` tells it; by default `candidate.py` of the working folder."""
    return str((path or Path(CANDIDATE)).resolve())


def describe_launch(compiled: Any, grid: tuple[Any, ...]) -> dict[str, Any]:
    """Describe a launch by grid, constants and resources, as JSON. Trailing ones of the grid are left out.

    `registers` are 32-bit registers per thread, `shared` is shared memory [bytes] per block.
    """
    sizes = [int(n) for n in grid]
    while len(sizes) > 1 and sizes[-1] == 1:
        sizes.pop()
    metadata = compiled.metadata
    return {
        "kernel": str(metadata.name),
        "grid": sizes,
        "num_warps": int(metadata.num_warps),
        "num_stages": int(getattr(metadata, "num_stages", 0)),
        "constexprs": _constexprs(compiled.src),
        "registers": compiled.n_regs,
        "spills": compiled.n_spills,
        "shared": int(metadata.shared),
    }


def _constexprs(source: Any) -> dict[str, int | str]:
    """Constants that a kernel was compiled with, by parameter, from Triton's `ASTSource`; nested ones are left out."""
    names, constants = getattr(source.fn, "arg_names", ()), getattr(source, "constants", {})
    plain = {path: value for path, value in constants.items() if isinstance(value, int | str)}
    return {name: plain[(number,)] for number, name in enumerate(names) if (number,) in plain}


class OperatorRecorder(TorchDispatchMode):
    """Adds every operator that reaches the dispatcher to a record.

    For an operator that the candidate registered itself, what runs inside it is recorded instead.
    """

    BUILT_IN = frozenset({"aten", "prim", "prims", "profiler", "quantized", "c10d", "_c10d_functional", "torchvision"})
    """Namespaces of operators that PyTorch and its own libraries register."""

    def __init__(self, record: ForwardRecord) -> None:
        super().__init__()
        self.record = record

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function.namespace in self.BUILT_IN:
            result = function(*args, **(kwargs or {}))
            self.record.add_operator(str(function), _leaves((args, kwargs)), result)
            return result
        on_gpu = any(isinstance(x, torch.Tensor) and x.is_cuda for x in _leaves((args, kwargs)))
        key = torch._C.DispatchKey.CUDA if on_gpu else torch._C.DispatchKey.CPU
        with OperatorRecorder(self.record):  # call the implementation: beyond the dispatcher no mode would see inside
            return function.redispatch(torch._C.DispatchKeySet(key), *args, **(kwargs or {}))


def count_moved_to_host(name: str, operands: list[Any], result: Any) -> int:
    """Count the numbers that an operator copies from the GPU to the host, as a CPU tensor or as a Python number."""
    if "_like" in name or ".new_" in name or not any(isinstance(x, torch.Tensor) and x.is_cuda for x in operands):
        return 0
    if isinstance(result, bool | int | float | complex):
        return 1
    return sum(x.numel() for x in _leaves(result) if isinstance(x, torch.Tensor) and x.is_cpu)

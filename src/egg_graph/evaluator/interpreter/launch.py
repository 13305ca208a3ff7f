"""`kernel[grid](...)` under the guard: specialise, run the programs, keep the record."""

import inspect
import random
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
from triton.backends.amd.compiler import HIPOptions
from triton.backends.nvidia.compiler import CUDAOptions
from triton.runtime import interpreter
from triton.runtime.interpreter import FunctionRewriter, InterpretedFunction

from egg_graph.evaluator.interpreter import kernel_source, races
from egg_graph.evaluator.interpreter.arguments import Specialisation, constexpr_names, to_device
from egg_graph.evaluator.interpreter.programs import Counts, Work
from egg_graph.evaluator.interpreter.run_state import LaunchInProgress, Session, current
from egg_graph.evaluator.interpreter.warmed import Warmed
from egg_graph.evaluator.wire.faults import KernelFault, Unfakeable
from egg_graph.evaluator.wire.launches import Launch
from egg_graph.schema import Knob

OPTIONS = set(CUDAOptions.__dataclass_fields__) | set(HIPOptions.__dataclass_fields__) | {"ir_override", "launch_pdl"}
GRID_LIMITS = (2**31 - 1, 65535, 65535)
LATE_SAMPLE = 16
"""Programs of a launch that are run where there is no time for all of them."""
Triple = tuple[int, int, int]


def run(self: Any, *args: Any, grid: Any, warmup: bool = False, **keywords: Any) -> Warmed:
    """Replacement of `InterpretedFunction.run`."""
    if warmup:
        own = {name for name in OPTIONS if name not in self.arg_names}
        return Warmed(self, {name: value for name, value in keywords.items() if name in own})
    session = current()
    started = time.perf_counter()
    function = self.rewrite()
    launched_at = session.candidate_line()
    bound, options = _bind(self, function, args, keywords)
    constexprs = constexpr_names(function)
    special = Specialisation(bound, constexprs, _unspecialised(self))
    shape = _grid(grid, bound, self.__name__)
    total = shape[0] * shape[1] * shape[2]
    if session.silent:
        session.configs = ()
        return Warmed(self, options)
    session.memory.begin_launch()
    device = {
        name: value if name in constexprs else to_device(value, name, session.memory, fake=session.fake)
        for name, value in bound.items()
    }
    with _launching(session, self) as progress:
        progress.warps = int(options.get("num_warps", progress.warps))
        work = _run_programs(session, progress, lambda: function(**device), shape)
    if session.fake:
        session.memory.end_launch(work)
    session.computing_launches += progress.computes
    if session.accumulates is False:
        session.accumulates = bool(progress.atomics) or races.updates_in_place(session)
    executed = len(work.programs)
    scale = total / executed if executed else 0.0
    session.launches.append(
        Launch(
            kernel=self.__name__,
            line=_definition_line(self),
            launched_at=launched_at,
            grid=shape,
            signature=special.signature,
            constexprs=special.constexprs,
            divisible_by_16=tuple(special.divisible),
            options=options,
            arguments=special.arguments,
            configs=session.configs,
            programs=total,
            executed=executed,
            load_bytes=progress.load_bytes * scale,
            store_bytes=progress.store_bytes * scale,
            compulsory_bytes=_compulsory_bytes(session, work),
            dot_flops={name: flops * scale for name, flops in progress.dot_flops.items()},
            least_dot_flops={name: work.least("dot", name) for name in progress.dot_flops},
            atomics=progress.atomics * scale,
            seconds=round(time.perf_counter() - started, 4),
        )
    )
    session.configs = ()
    return Warmed(self, options)


def _bind(self: Any, function: Any, args: Any, keywords: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Knob]]:
    """Kernel parameters and launch options.

    Raises:
        KeyError: for a keyword that is neither; the launcher refuses it with the same words.
    """
    options = {name: value for name, value in keywords.items() if name not in self.arg_names}
    for name in options:
        if name not in OPTIONS:
            raise KeyError(f"Keyword argument {name} was specified but unrecognised")
    parameters = {name: value for name, value in keywords.items() if name in self.arg_names}
    bound = inspect.getcallargs(function, *args, **parameters)
    plain = {name: value for name, value in options.items() if isinstance(value, int | float | str | bool)}
    return {name: bound[name] for name in self.arg_names}, plain


def _unspecialised(self: Any) -> set[str]:
    """Parameters that `@triton.jit(do_not_specialize=...)` names or numbers."""
    listed = self.kwargs.get("do_not_specialize") or ()
    return {self.arg_names[item] if isinstance(item, int) else item for item in listed}


def _definition_line(self: Any) -> int:
    """Line of the kernel's `def` in its file, known once it was rewritten."""
    return int(self.rewriter.def_file_lineno)


def _grid(grid: Any, bound: dict[str, Any], kernel: str) -> Triple:
    """The grid as three integers.

    Raises:
        KernelFault: if the GPU would refuse it.
    """
    sizes = grid(dict(bound)) if callable(grid) else grid
    sizes = tuple(int(size) for size in (sizes if isinstance(sizes, tuple | list) else (sizes,)))
    if not 1 <= len(sizes) <= 3 or any(s < 0 or s > limit for s, limit in zip(sizes, GRID_LIMITS, strict=False)):
        raise KernelFault(
            "exception",
            f"grid {sizes} of kernel {kernel} is not launchable: at most {GRID_LIMITS} programs along x, y and z",
            f"kernel {kernel}",
            "Put the large dimension first, or loop inside of the kernel.",
        )
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


@contextmanager
def _launching(session: Session, kernel: Any) -> Iterator[LaunchInProgress]:
    """Errors inside of a kernel become faults that name its line."""
    progress = session.launch = LaunchInProgress(kernel.__name__, _definition_line(kernel))
    try:
        with np.errstate(all="ignore"):
            yield progress
    except (KernelFault, Unfakeable):
        raise
    except Exception as error:
        raise _as_fault(session, progress, error) from error
    finally:
        session.launch = None


def _as_fault(session: Session, progress: LaunchInProgress, error: Exception) -> KernelFault:
    line = session.line_of(error.__traceback__)
    where = f"kernel {progress.kernel}, line {line}, program {progress.program}"
    message = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, NotImplementedError) or "'InterpreterBuilder' object has no attribute" in message:
        return KernelFault(
            "unsupported_in_kernel",
            f"the interpreter cannot run this operation ({message})",
            where,
            "Without a GPU, use operations that Triton's interpreter knows.",
        )
    return KernelFault("exception", message, where)


def _run_programs(session: Session, progress: LaunchInProgress, body: Callable[[], Any], shape: Triple) -> Work:
    """Run all programs, or a sample of them in a fake run; returns what each did."""
    builder = interpreter.interpreter_builder
    builder.set_grid_dim(*shape)
    total = shape[0] * shape[1] * shape[2]
    deadline = time.perf_counter() + session.budget_seconds
    work = Work(total)
    for linear in _chosen(session, total):
        if session.fake and len(work.programs) >= 2 and time.perf_counter() > deadline:
            break
        program = (linear % shape[0], linear // shape[0] % shape[1], linear // (shape[0] * shape[1]))
        progress.program, progress.linear, progress.synchronised = program, linear, False
        progress.loaded = []
        progress.meet()
        builder.set_grid_idx(*program)
        body()
        work.add(linear, _counters(session, progress))
    return work


def _chosen(session: Session, total: int) -> Iterable[int]:
    """Programs to run: all, or the first, the last two and one at random from each equal share of those between.

    Shares rather than a free draw, so that work which grows along the grid (causal attention) is averaged well.
    """
    if not session.fake:
        return _until_late(session, total)
    if total <= session.sample:
        return range(total)
    return [0, total - 1, total - 2, *_shares(1, total - 2, session.sample - 3)]


def _until_late(session: Session, total: int) -> Iterator[int]:
    """One after the other; where steps are limited and used up, a sample of those that are left, with the last."""
    for linear in range(total):
        late = session.whole_steps is not None and session.steps > session.whole_steps
        if late and total - linear > LATE_SAMPLE:
            yield from _shares(linear, total - 1, LATE_SAMPLE - 1)
            yield total - 1
            return
        yield linear


def _shares(first: int, last: int, number: int) -> list[int]:
    """One program at random from each of so many equal shares of `range(first, last)`."""
    draw = random.Random(0)
    edges = [first + (last - first) * i // number for i in range(number + 1)]
    return [draw.randrange(low, high) for low, high in pairwise(edges)]


def _counters(session: Session, progress: LaunchInProgress) -> Counts:
    """What the programs so far have computed and moved."""
    counts: Counts = {("dot", name): flops for name, flops in progress.dot_flops.items()}
    for region in session.memory.regions.values():
        counts["load", region.number] = region.load_bytes
        counts["store", region.number] = region.store_bytes
    return counts


def _compulsory_bytes(session: Session, work: Work) -> float:
    """Every storage read and every storage written, once each; never more than is surely asked for."""
    return sum(
        min(region.viewed_bytes, work.least(verb, region.number))
        for region in session.memory.regions.values()
        for verb in ("load", "store")
    )


def call(self: Any, *args: Any, **keywords: Any) -> Any:
    """Replacement of `InterpretedFunction.__call__`: a kernel calls another `@triton.jit` function."""
    return self.rewrite()(*args, **keywords)


def compile_and_exec(self: Any, tree: Any) -> Any:
    """Replacement of `FunctionRewriter._compile_and_exec`.

    The original pours the interpreter module's names into the candidate's globals, where they would hide a missing
    `import math`. Loop variables become what they are in a compiled kernel.
    """
    kernel_source.rewrite(tree)
    code = compile(tree, filename=self.filename, mode="exec")
    names = self.fn.__globals__
    names.setdefault("interpreter_semantic", interpreter.interpreter_semantic)
    names.setdefault(kernel_source.NAME, kernel_source.loop)
    local = dict(self.kwargs)
    exec(code, names, local)
    return local[self.fn.__name__]


def install() -> None:
    """Replace Triton's launch of interpreted kernels."""
    InterpretedFunction.run, InterpretedFunction.__call__ = run, call
    FunctionRewriter._compile_and_exec = compile_and_exec

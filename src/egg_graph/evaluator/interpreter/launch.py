"""`kernel[grid](...)` under the guard: specialise the arguments, interpret the programs, record the launch."""

import inspect
import operator
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from triton.backends.amd.compiler import HIPOptions
from triton.backends.nvidia.compiler import CUDAOptions
from triton.runtime.interpreter import InterpretedFunction

from egg_graph.evaluator.interpreter import races
from egg_graph.evaluator.interpreter.arguments import Specialisation, constexpr_names, to_device, typed_names
from egg_graph.evaluator.interpreter.coverage import add_upper_bounds, compulsory_bytes
from egg_graph.evaluator.interpreter.kernel_source import captured, written_source
from egg_graph.evaluator.interpreter.left_out import forget_overwritten
from egg_graph.evaluator.interpreter.programs import ProgramCounts, run_programs
from egg_graph.evaluator.interpreter.run_state import LaunchState, RunState, current_run
from egg_graph.evaluator.wire.faults import KernelFault, Unfakeable
from egg_graph.evaluator.wire.launches import Launch, describe_configuration
from egg_graph.schema import Knob

OPTIONS = set(CUDAOptions.__dataclass_fields__) | set(HIPOptions.__dataclass_fields__) | {"ir_override", "launch_pdl"}
GRID_LIMITS = (2**31 - 1, 65535, 65535)
"""Most programs along x, y and z (CUDA programming guide, compute capabilities)."""
HOOKS = "pre_run_hooks"
"""Attribute of a kernel: what it calls before each launch."""
Grid = tuple[int, int, int]


@dataclass(frozen=True)
class CompiledKernelStub:
    """Stands for Triton's `CompiledKernel`, which `kernel.warmup(...)` and `kernel[grid](...)` return.

    Wrappers read its figures to choose a grid, and launch through it. Nothing is compiled here, so the figures are
    those of a kernel that lets several programs share a multiprocessor.
    """

    kernel: Any
    options: dict[str, Any]
    n_regs: int = 64
    n_spills: int = 0

    def _init_handles(self) -> None:
        """Do nothing: there is no binary to load."""

    @property
    def metadata(self) -> SimpleNamespace:
        """The compiler's metadata, as far as wrappers read it."""
        defaults = {"num_warps": 4, "num_stages": 3, "num_ctas": 1}
        return SimpleNamespace(**{**defaults, **self.options}, shared=0, name=self.kernel.__name__)

    def __getitem__(self, grid: Any) -> Any:
        return lambda *args: self.kernel[grid](*args, **self.options)


def launch_kernel(self: Any, *args: Any, grid: Any, warmup: bool = False, **keywords: Any) -> CompiledKernelStub:
    """Replace `InterpretedFunction.run`, which launches a kernel.

    The original copies tensors to the host and runs every program on raw pointers. This one passes virtual pointers,
    so that each access can be checked; may run a sample of the programs; and records the launch.
    """
    for hook in vars(self).get(HOOKS, ()):
        hook(*args, **keywords)
    if warmup:
        own = {name for name in OPTIONS if name not in self.arg_names}
        return CompiledKernelStub(self, {name: value for name, value in keywords.items() if name in own})
    run = current_run()
    started = time.perf_counter()
    function = self.rewrite()
    launched_at = run.candidate_line()
    bound, options = _bind(self, function, args, keywords)
    special = Specialisation(bound, constexpr_names(function), _unspecialised(self), typed_names(function))
    shape = _grid(grid, bound, self.__name__)
    if run.silent:
        run.configs = ()
        return CompiledKernelStub(self, options)
    form = {
        "kernel": self.__name__,
        "line": int(self.rewriter.def_file_lineno),
        "launched_at": launched_at,
        "grid": shape,
        "signature": special.signature,
        "constexprs": special.constexprs,
        "divisible_by_16": tuple(special.divisible),
        "options": options,
        "arguments": special.arguments,
        "numbers": special.numbers,
        "programs": shape[0] * shape[1] * shape[2],
        "source": written_source(self),
        "captured": captured(self.fn),
    }
    if run.only_records:
        run.alternatives.append(Launch(**form, executed=0))
        return CompiledKernelStub(self, options)
    run.memory.begin_launch()
    device = {
        name: value if name in special.constexprs else to_device(value, name, run.memory, fake=run.fake)
        for name, value in bound.items()
    }
    with _launching(run, self.__name__, describe_configuration(special.constexprs, options)) as launch:
        launch.num_warps = int(options.get("num_warps", launch.num_warps))
        launch.cooperative = bool(options.get("launch_cooperative_grid"))

        def interpreted() -> ProgramCounts:
            return run_programs(run, launch, lambda: function(**device), shape)

        if run.repeated is not None:
            alike = (self.__name__, form["line"], form["source"], shape, repr(special.constexprs), repr(options))
            tensors = [value for name, value in bound.items() if name not in special.constexprs]
            counts = run.repeated.counts(run, launch, alike, tensors, interpreted)
        else:
            counts = interpreted()
    _record(run, launch, counts, form, time.perf_counter() - started)
    return CompiledKernelStub(self, options)


def add_pre_run_hook(self: Any, hook: Callable[..., object]) -> None:
    """Have a kernel call `hook` with its arguments before each launch, as `JITFunction.add_pre_run_hook` does."""
    vars(self).setdefault(HOOKS, []).append(hook)


def _record(run: RunState, launch: LaunchState, counts: ProgramCounts, form: dict[str, Any], seconds: float) -> None:
    """Add a launch to the run's, its counts scaled from the programs that were interpreted to the whole grid.

    Args:
        run: the current run.
        launch: what the programs added up.
        counts: the same by program.
        form: the fields of the `Launch` that were known before it ran.
        seconds: how long it took.
    """
    counts.viewed = {region.number: region.viewed_bytes for region in run.memory.regions.values()}
    if run.fake:
        run.counts.append(counts)
        add_upper_bounds(run.memory, counts)
    run.computing_launches += launch.computes
    if run.accumulates is False:
        run.accumulates = bool(launch.atomics) or races.updates_in_place(run)
    forget_overwritten(run, launch, counts)
    executed = len(counts.programs)
    scale = counts.total / executed if executed else 0.0
    run.launches.append(
        Launch(
            **form,
            configs=run.configs,
            alternatives=tuple(run.alternatives),
            executed=executed,
            load_bytes=launch.load_bytes * scale,
            store_bytes=launch.store_bytes * scale,
            compulsory_bytes=compulsory_bytes(counts),
            dot_flops={name: flops * scale for name, flops in launch.dot_flops.items()},
            least_dot_flops={name: counts.lower_bound("dot", name) for name in launch.dot_flops},
            atomics=launch.atomics * scale,
            seconds=round(seconds, 4),
        )
    )
    run.configs, run.alternatives = (), []


def _bind(self: Any, function: Any, args: Any, keywords: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Knob]]:
    """Split the arguments of a launch into kernel parameters and launch options.

    Raises:
        KeyError: for a keyword that is neither, in the words of Triton's launcher.
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
    """Return the parameters that `@triton.jit(do_not_specialize=...)` names or numbers."""
    listed = self.kwargs.get("do_not_specialize") or ()
    return {self.arg_names[item] if isinstance(item, int) else item for item in listed}


def _grid(grid: Any, bound: dict[str, Any], kernel: str) -> Grid:
    """Return the grid as three integers. As Triton's launcher does, take no notice of entries after the third.

    Raises:
        KernelFault: if the GPU would refuse it.
    """
    given = grid(dict(bound)) if callable(grid) else grid
    if not isinstance(given, tuple | list) or not given:
        raise _unlaunchable(given, kernel, "it is no tuple", "Write kernel[(programs,)](…).")
    try:
        sizes = [operator.index(size) for size in given[:3]]
    except TypeError:
        raise _unlaunchable(given, kernel, "its entries are no integers", "Divide with triton.cdiv or //.") from None
    if any(s < 0 or s > limit for s, limit in zip(sizes, GRID_LIMITS, strict=False)):
        limits = f"at most {GRID_LIMITS} programs along x, y and z"
        raise _unlaunchable(given, kernel, limits, "Put the large dimension first, or loop inside of the kernel.")
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def _unlaunchable(grid: Any, kernel: str, why: str, cure: str) -> KernelFault:
    return KernelFault(
        "exception", f"grid {grid} of kernel {kernel} is not launchable: {why}", f"kernel {kernel}", cure
    )


@contextmanager
def _launching(run: RunState, kernel: str, configuration: str) -> Iterator[LaunchState]:
    """Begin a launch; an error inside of the kernel becomes a fault that names its line and the configuration."""
    launch = run.launch = LaunchState(kernel)
    try:
        with np.errstate(all="ignore"):
            yield launch
    except Unfakeable:
        raise
    except KernelFault as fault:
        fault.add_place(configuration)
        raise
    except Exception as error:
        failure = _as_fault(run, launch, error)
        failure.add_place(configuration)
        raise failure from error
    finally:
        run.launch = None


def _as_fault(run: RunState, launch: LaunchState, error: Exception) -> KernelFault:
    where = f"kernel {launch.kernel}, line {run.line_of(error.__traceback__)}, program {launch.program}"
    message = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, NotImplementedError) or "'InterpreterBuilder' object has no attribute" in message:
        return KernelFault(
            "unsupported_in_kernel",
            f"the interpreter cannot run this operation ({message})",
            where,
            "Without a GPU, use operations that Triton's interpreter knows.",
        )
    return KernelFault("exception", message, where)


def install() -> None:
    """Replace how Triton launches interpreted kernels."""
    InterpretedFunction.run = launch_kernel
    InterpretedFunction.add_pre_run_hook = add_pre_run_hook

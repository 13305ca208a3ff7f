"""Compile one recorded launch for the target and read the resources of the compiled kernel."""

import ast
import os
import time
from copy import copy
from importlib.metadata import version
from pathlib import Path
from typing import Any

from egg_graph.evaluator.aot.code_fingerprint import code_fingerprint
from egg_graph.evaluator.aot.diagnostics import capture_stderr, compiler_fault
from egg_graph.evaluator.aot.fits import check_fits
from egg_graph.evaluator.aot.launcher import as_tuples
from egg_graph.evaluator.wire.faults import KernelFault
from egg_graph.evaluator.wire.launches import Launch, decode_captured, decode_constant
from egg_graph.schema import Hardware, KernelResources

INTEGERS = ("i32", "i64", "u64")
CONSTANTS_HAVE_ATTRIBUTES = tuple(map(int, version("triton").split(".")[:2])) >= (3, 7)
"""Whether Triton's launcher writes an empty entry for every constant; before 3.7 it does for texts alone."""
WITHIN = ("fn", "__func__")
"""Attributes in which a decorator of Triton, or `staticmethod`, keeps what it was given."""
_globals: dict[Path, dict[str, Any]] = {}
"""File of a candidate imported in this process -> its globals."""
_functions: dict[Path, dict[str, Any]] = {}
"""File of a candidate imported in this process -> its functions by name."""


def compile_launch(module_path: str | Path, launch: Launch, hardware: Hardware) -> KernelResources:
    """Compile a launch's kernel for `hardware.arch`, specialised exactly as on a GPU, and read its resources.

    Args:
        module_path, launch, hardware: as `compile_kernel` takes them.

    Raises:
        KernelFault: as `compile_kernel`, and `shared_memory_exceeded` or `programs_not_resident`.
        RuntimeError, KeyError: as `compile_kernel`.
    """
    from egg_graph.evaluator.aot.resources import read_resources

    started = time.perf_counter()
    compiled = compile_kernel(module_path, launch, hardware)
    resources = read_resources(compiled, launch, hardware, time.perf_counter() - started)
    check_fits(resources, launch, hardware)
    return resources


def fill_cache(module_path: str | Path, launch: Launch, hardware: Hardware) -> str:
    """Leave a launch's kernel in Triton's cache, for a process on this machine's NVIDIA GPU.

    Args:
        module_path, launch, hardware: as `compile_kernel` takes them.

    Returns:
        The `code_fingerprint` of the kernel; empty for another vendor's GPU.

    Raises:
        KernelFault, RuntimeError, KeyError: as `compile_kernel`.
    """
    ptx = compile_kernel(module_path, launch, hardware).asm.get("ptx")
    return code_fingerprint(ptx) if ptx else ""


def compile_kernel(module_path: str | Path, launch: Launch, hardware: Hardware) -> Any:
    """Compile a launch's kernel for `hardware.arch`, specialised exactly as on a GPU; returns Triton's compiled kernel.

    Args:
        module_path: the candidate's file; imported once per process.
        launch: a launch that `run_fake` recorded.
        hardware: the target. Needs the figures shared_memory_per_block, shared_memory_per_multiprocessor,
            registers_per_multiprocessor, max_warps_per_multiprocessor, max_blocks_per_multiprocessor, multiprocessors,
            warp_size.

    Raises:
        KernelFault: `kernel_compile_error` or `unsupported_in_kernel`.
        RuntimeError: if the process interprets Triton instead of compiling it.
        KeyError: if the target's data sheet lacks a figure.
    """
    if os.environ.get("TRITON_INTERPRET") == "1":
        raise RuntimeError("compile_kernel needs a process without TRITON_INTERPRET=1")
    from egg_graph.evaluator.device.simulated import gpu_target

    functions = _load_functions(Path(module_path).resolve(), hardware)
    kernel = functions.get(launch.kernel) or _nested(Path(module_path).resolve(), launch, functions)
    if kernel is None:
        raise KernelFault(
            "unsupported_in_kernel",
            f"kernel {launch.kernel} depends on what only the function knows that makes it, so it cannot be compiled "
            "ahead of time",
            f"kernel {launch.kernel}, line {launch.line}",
            "Define every @triton.jit function at module level.",
        )
    if launch.source:
        kernel = copy(kernel)
        kernel._unsafe_update_src(launch.source)
    with capture_stderr() as messages:
        try:
            return _compile(kernel, launch, functions, gpu_target(hardware))
        except Exception as error:
            raise compiler_fault(error, messages.text(), kernel, launch) from error


def _compile(kernel: Any, launch: Launch, functions: dict[str, Any], target: Any) -> Any:
    """Compile a kernel with a launch's signature, constants, alignment and options."""
    from triton.compiler import ASTSource
    from triton.compiler import compile as triton_compile

    names = list(launch.signature)

    def path(dotted: str) -> tuple[int, ...]:
        """Turn the path of a parameter (`shape.1`) into positions."""
        name, *inner = dotted.split(".")
        return (names.index(name), *map(int, inner))

    source = ASTSource(
        fn=kernel,
        signature={name: as_tuples(kind) for name, kind in launch.signature.items()},
        constexprs={path(p): decode_constant(value, functions) for p, value in launch.constexprs.items()},
        attrs=_attributes(kernel, launch),
    )
    options = {name: value for name, value in launch.options.items() if name != "ir_override"}
    return triton_compile(source, target=target, options=options)


def _attributes(kernel: Any, launch: Launch) -> dict[tuple[int, ...], list[Any]]:
    """Return the alignments as Triton's launcher writes them: where a parameter stands -> its attributes.

    Their order, and those that are empty, are part of the key by which Triton finds a compiled kernel.
    """
    found: dict[tuple[int, ...], list[Any]] = {}

    def add(path: str, place: tuple[int, ...], kind: Any) -> None:
        if isinstance(kind, list):
            for number, inner in enumerate(kind):
                add(f"{path}.{number}", (*place, number), inner)
        elif kind.startswith("*") or kind in INTEGERS:
            found[place] = [["tt.divisibility", 16]] if path in launch.divisible_by_16 else []

    for number, (name, kind) in enumerate(launch.signature.items()):
        if kind == "constexpr":
            if CONSTANTS_HAVE_ATTRIBUTES or isinstance(launch.constexprs[name], str):
                found[(number,)] = []
        elif not kernel.params[number].do_not_specialize:
            add(name, (number,), kind)
    return found


def _nested(path: Path, launch: Launch, functions: dict[str, Any]) -> Any:
    """Define a kernel that the candidate defines within a function; None if that needs more than what it captured."""
    from triton.runtime import JITFunction

    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef) and (node.name, node.lineno) == (launch.kernel, launch.line):
            try:
                known = {name: decode_captured(value, functions) for name, value in launch.captured.items()}
                scope = {**_globals[path], **known}
                exec(compile(ast.Module([node], []), str(path), "exec"), scope)
            except (KeyError, NameError):
                return None
            return _unwrapped(scope[node.name]) or JITFunction(scope[node.name])
    return None


def _unwrapped(member: Any) -> Any:
    """Return the kernel within what autotune, heuristics and staticmethod make; None if there is none."""
    from triton.runtime import JITFunction

    while not isinstance(member, JITFunction):
        within = next((name for name in WITHIN if hasattr(member, name)), None)
        if within is None:
            return None
        member = getattr(member, within)
    return member


def _load_functions(path: Path, hardware: Hardware) -> dict[str, Any]:
    """Import a candidate once and return its top-level functions by name, `@triton.jit` ones as `JITFunction`."""
    if path not in _functions:
        from egg_graph.evaluator.device.simulated import simulate_gpu
        from egg_graph.evaluator.host.candidate import load_module

        simulate_gpu(hardware)
        kernels: dict[str, Any] = {}
        others: dict[str, Any] = {}
        _globals[path] = vars(load_module(path))
        for member in list(_globals[path].values()):
            if (kernel := _unwrapped(member)) is not None:
                kernels[kernel.__name__] = kernel
            elif callable(member) and hasattr(member, "__name__"):
                others[member.__name__] = member
        _functions[path] = {**others, **kernels}
    return _functions[path]

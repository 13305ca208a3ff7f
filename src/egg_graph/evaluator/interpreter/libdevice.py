"""libdevice in numpy: `tl.extra.libdevice`, `tl.extra.cuda.libdevice` and `tl.extra.hip.libdevice`.

Triton declares these functions as external symbols, which its interpreter cannot call. Their declarations stay: they
choose the symbol by the operands' types, and refuse what the compiler refuses. Here the symbols get functions.
"""

import inspect
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
from triton.language import core
from triton.runtime import interpreter
from triton.runtime.interpreter import InterpreterBuilder

from egg_graph.evaluator.interpreter.arithmetic import apply
from egg_graph.evaluator.interpreter.handles import make, numpy_dtype
from egg_graph.evaluator.interpreter.libdevice_table import FUNCTIONS
from egg_graph.evaluator.interpreter.run_state import current_run
from egg_graph.evaluator.wire.faults import KernelFault

SYMBOLS: dict[str, str] = {}
"""External symbol (`__nv_llrintf`) -> libdevice's name of the function (`llrint`)."""


def extern_elementwise(
    self: Any, library: str, path: str, symbol: str, operands: list[Any], result_type: Any, is_pure: bool
) -> Any:
    """Replace `create_extern_elementwise`, which raises NotImplementedError.

    Raises:
        KernelFault: `unsupported_in_kernel`, for a symbol that is not known here.
    """
    function = FUNCTIONS.get(SYMBOLS.get(symbol, symbol))
    if function is None:
        raise KernelFault(
            "unsupported_in_kernel",
            f"the interpreter knows no libdevice function '{SYMBOLS.get(symbol, symbol)}'",
            current_run().where(),
            "Compose it from functions of triton.language.",
        )
    target = numpy_dtype(result_type.scalar)
    return make(apply(lambda *x: _stored(function(*x), target), *[x.data for x in operands]), result_type.scalar)


def _stored(values: np.ndarray, target: np.dtype[Any]) -> np.ndarray:
    """Give values the declared type. Some declarations call an unsigned integer signed: its bits stay."""
    if values.dtype.kind == "u" and target.kind == "i" and values.dtype.itemsize == target.itemsize:
        return values.view(target)
    return values.astype(target, copy=False)


def install() -> None:
    """Give every function of the libdevice modules to the interpreter."""
    import triton.language.extra.cuda.libdevice as cuda
    import triton.language.extra.hip.libdevice as hip
    import triton.language.extra.libdevice as generic

    for module in (hip, cuda):
        SYMBOLS.update(_symbols(module))
    for module in (cuda, hip):
        for name, declaration in _functions(module):
            setattr(module, name, _callable(declaration))
    for name, _ in _functions(generic):  # the compiler takes the target's module in its place
        if hasattr(cuda, name) or hasattr(hip, name):
            setattr(generic, name, getattr(cuda, name, None) or getattr(hip, name))
    InterpreterBuilder.create_extern_elementwise = extern_elementwise


def _functions(module: ModuleType) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, member in list(vars(module).items()):
        if not name.startswith("_") and inspect.isfunction(member) and member.__module__.endswith("libdevice"):
            yield name, member


class _Declared(Exception):
    """Carries the symbols that a function declares out of it."""

    def __init__(self, symbols: list[str]) -> None:
        super().__init__()
        self.symbols = symbols


def _symbols(module: ModuleType) -> dict[str, str]:
    """Read which symbols each function of a module declares, by calling it without operands."""

    def declare(_library: str, _path: str, _operands: Any, by_types: dict[Any, Any], **_: Any) -> None:
        raise _Declared([symbol for symbol, _ in by_types.values()])

    found: dict[str, str] = {}
    original, core.extern_elementwise = core.extern_elementwise, declare
    try:
        for name, declaration in _functions(module):
            operands = [None] * (len(inspect.signature(declaration).parameters) - 1)
            try:
                declaration(*operands, _semantic=interpreter.interpreter_semantic)
            except _Declared as declared:
                found.update(dict.fromkeys(declared.symbols, name))
    finally:
        core.extern_elementwise = original
    return found


def _callable(declaration: Callable[..., Any]) -> Callable[..., Any]:
    def function(*args: Any, **keywords: Any) -> Any:
        return declaration(*args, **{**keywords, "_semantic": interpreter.interpreter_semantic})

    function.__name__ = declaration.__name__
    return function

"""Patch Triton's interpreter, once per process. The replaced operators say what they change."""

import os
from types import SimpleNamespace
from typing import Any

_installed = False


def install() -> None:
    """Patch Triton's interpreter for the rest of this process. Calling it again changes nothing.

    Raises:
        RuntimeError: if Triton was imported without TRITON_INTERPRET=1.
    """
    global _installed
    if _installed:
        return
    if os.environ.get("TRITON_INTERPRET") != "1":
        raise RuntimeError("the guarded interpreter needs TRITON_INTERPRET=1, set before triton is imported")
    import triton.language as tl
    from triton.runtime import interpreter

    if not isinstance(tl.standard.sum, interpreter.InterpretedFunction):
        raise RuntimeError("triton was imported before TRITON_INTERPRET=1 was set")
    from egg_graph.evaluator.interpreter import (
        alignment_hints,
        allocations,
        arithmetic,
        autotune,
        descriptors,
        dot,
        handles,
        inline_asm,
        kernel_source,
        language,
        launch,
        libdevice,
        memory_ops,
        reductions,
        type_reuse,
    )

    interpreter._get_np_dtype = handles.numpy_dtype

    for operators in (arithmetic, inline_asm, descriptors, dot, memory_ops):
        operators.install(interpreter.InterpreterBuilder)
    for module in (allocations, autotune, kernel_source, launch, libdevice, reductions, type_reuse):
        module.install()
    interpreter.interpreter_builder.options = _options(interpreter)
    interpreter._patch_lang(SimpleNamespace(__globals__={"tl": tl, "core": tl.core}))
    language.install()
    alignment_hints.install()
    _name_as_compiled(interpreter.InterpretedFunction)
    _warm_up(interpreter, tl)
    _installed = True


def _options(interpreter: Any) -> Any:
    """Make the builder's options.

    Triton's overflow checks are off: they triple integer arithmetic and assert nothing; `overflow` replaces them. The
    input precisions of newer versions are allowed.
    """
    known = interpreter.InterpreterOptions.allowed_dot_input_precisions
    return interpreter.InterpreterOptions(
        sanitize_overflow=False,
        allowed_dot_input_precisions=(*known, *(p for p in ("bf16x3", "bf16x6") if p not in known)),
    )


def _name_as_compiled(function: Any) -> None:
    """Rename the class of interpreted kernels to `JITFunction`.

    So `isinstance(kernel, triton.JITFunction)` and the class's name give a candidate the same answers as on a GPU.
    """
    import triton

    function.__name__ = function.__qualname__ = triton.JITFunction.__name__
    function.__module__ = triton.JITFunction.__module__
    triton.JITFunction = triton.runtime.JITFunction = function


def _warm_up(interpreter: Any, tl: Any) -> None:
    """Do what every fork of this process would do otherwise: import the rest and rewrite Triton's own functions."""
    import torch

    from egg_graph.evaluator.host import candidate  # noqa: F401
    from egg_graph.evaluator.interpreter import address_space, allocations, cuda_mode

    with cuda_mode.SimulatedCudaMode(), allocations.PoisonMode(address_space.AddressSpace()):
        torch.empty(1)  # the first use of a dispatch mode imports much of PyTorch
    for function in (*vars(tl.standard).values(), *vars(tl.random).values()):
        if isinstance(function, interpreter.InterpretedFunction):
            function.rewrite()

"""Whose fault an exception in a candidate's process is, and what it means.

The candidate's, if its own code, or the library on its behalf, was running; if the compiler refused its kernel; or if
the GPU reports what only a kernel can have done. Anything else is a fault of this evaluator or of the machine, and is
told as such: it must not count against the candidate.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

from egg_graph.evaluator.wire.faults import KernelFault
from egg_graph.schema import Finding, FindingKind

COMPILER_ERRORS = frozenset(
    {"CompilationError", "UnsupportedLanguageConstruct", "CompileTimeAssertionFailure", "OutOfResources", "PTXASError"}
)
"""Names of Triton's own exceptions."""
OUT_OF_MEMORY_WORDS = ("can't allocate memory", "not enough memory", "out of memory", "Cannot allocate memory")
ILLEGAL_ACCESS_WORDS = ("illegal memory access", "misaligned address", "driver error 700", "driver error 716")
ASSERT_WORDS = ("device-side assert triggered", "driver error 710")
"""PyTorch's advice at the end of any CUDA error speaks of "device-side assertions", too."""
KERNEL_WORDS = (*ILLEGAL_ACCESS_WORDS, *ASSERT_WORDS, "unspecified launch failure", "illegal instruction",
                "hardware stack error", "invalid program counter", "launch timed out", "invalid configuration argument",
                "driver error 719", "driver error 715", "driver error 718", "driver error 714")  # fmt: skip
"""What the driver says, now or at the next call, of a kernel that went wrong."""
MACHINE_WORDS = ("no CUDA-capable device", "busy or unavailable", "uncorrectable ECC", "driver version is insufficient",
                 "system not yet initialized", "NVLink", "No CUDA GPUs are available", "no kernel image",
                 "fell off the bus", "driver error 100", "driver error 214", "driver error 46")  # fmt: skip
"""What no candidate can bring about."""
ENTRY_POINT = "ModelNew"
FORWARD = "_call_impl"
"""PyTorch's function that calls a module's forward: an exception through it is of the forward."""
CONSTRUCTION = "construct"


def describe(error: BaseException, candidate: Path) -> Finding:
    """The finding that an exception amounts to.

    Args:
        error: as it was caught, with its traceback.
        candidate: the candidate's file.
    """
    fault = next((e for e in _chain(error) if isinstance(e, KernelFault)), None)
    if fault is not None:
        return fault.finding()
    own = [frame for e in _chain(error) for frame in _frames(e) if frame.filename == str(candidate)]
    first = [frame for frame in _frames(error) if frame.filename == str(candidate)] or own
    where = f"line {first[-1].lineno}, in {first[-1].name}: {first[-1].line}" if first else ""
    if isinstance(error, SystemExit):
        from egg_graph.evaluator.host.outcome import exited

        return exited(str(error.code)).model_copy(update={"where": where})
    text = f"{type(error).__name__}: {' '.join(str(error).split())}"[:600]
    if not own and not _of_the_candidate(error, candidate):
        return Finding(kind="infrastructure", message=f"the evaluator's own process failed: {text}"[:600])
    kind, cure = _meaning(error)
    return Finding(kind=kind, message=text, where=where, cure=cure)


def _of_the_candidate(error: BaseException, candidate: Path) -> bool:
    """Whether an exception without a frame of the candidate's is its fault all the same."""
    names = {type(e).__name__ for e in _chain(error)}
    words = " ".join(str(e) for e in _chain(error))
    if names & COMPILER_ERRORS or "PassManager" in words:
        return True
    if any(word in words for word in MACHINE_WORDS):
        return False
    if any(frame.name in (FORWARD, CONSTRUCTION) for frame in _frames(error)) or ENTRY_POINT in words:
        return True
    ran = any(getattr(module, "__file__", None) == str(candidate) for module in list(sys.modules.values()))
    of_the_run = isinstance(error, MemoryError | RecursionError) or _says(words, (*KERNEL_WORDS, *OUT_OF_MEMORY_WORDS))
    return ran and of_the_run


def _meaning(error: BaseException) -> tuple[FindingKind, str]:
    """Kind of finding and its cure, where the type or the words of an exception tell them."""
    name, words = type(error).__name__, str(error)
    if isinstance(error, MemoryError) or _says(words, OUT_OF_MEMORY_WORDS):
        return "memory_exceeded", "allocate only what one forward needs; sizes come from the inputs"
    if name == "OutOfResources" and "shared memory" in words:
        return "shared_memory_exceeded", "take smaller blocks or fewer num_stages"
    if name in COMPILER_ERRORS or "PassManager" in words:
        return "kernel_compile_error", ""
    if _says(words, ASSERT_WORDS):
        return "device_assert", "a tl.device_assert, or an index that a library's kernel checks, failed on the GPU"
    if _says(words, ILLEGAL_ACCESS_WORDS):
        return "out_of_bounds", "mask every load and store; look at offsets that may pass the end of a tensor"
    return "exception", ""


def _says(words: str, phrases: tuple[str, ...]) -> bool:
    return any(phrase in words for phrase in phrases)


def _frames(error: BaseException) -> traceback.StackSummary:
    return traceback.extract_tb(error.__traceback__)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An exception and what it came of (Triton wraps what a kernel raises)."""
    seen: BaseException | None = error
    for _ in range(10):
        if seen is None:
            return
        yield seen
        seen = seen.__cause__ or seen.__context__

"""What an exception in a candidate's process means: a finding about the candidate, or a fault of the machine.

The candidate is at fault if its own code was running, or a library's on its behalf; if the compiler refused its kernel;
or if the GPU reports what only a kernel can have done. Any other exception is a fault of the evaluator or the machine,
and does not count against the candidate.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from egg_graph.evaluator.wire.faults import KernelFault
from egg_graph.schema import Finding, FindingKind

COMPILER_ERRORS = frozenset(
    {"CompilationError", "UnsupportedLanguageConstruct", "CompileTimeAssertionFailure", "OutOfResources", "PTXASError"}
)
"""Names of Triton's own exceptions."""
OUT_OF_MEMORY_WORDS = ("can't allocate memory", "not enough memory", "out of memory", "Cannot allocate memory")
ILLEGAL_ACCESS_WORDS = ("illegal memory access", "misaligned address", "driver error 700", "driver error 716")
TOO_MANY_PROGRAMS = "too many blocks in cooperative launch"
ASSERT_WORDS = ("device-side assert triggered", "driver error 710")
"""What a failed device-side assert says. "device-side assertions" occurs in the advice at the end of any CUDA error."""
KERNEL_WORDS = (*ILLEGAL_ACCESS_WORDS, *ASSERT_WORDS, TOO_MANY_PROGRAMS, "unspecified launch failure",
                "illegal instruction", "hardware stack error", "invalid program counter", "launch timed out",
                "invalid configuration argument", "driver error 719", "driver error 715", "driver error 718",
                "driver error 714")  # fmt: skip
"""What the driver reports, at once or at the next call, when a kernel went wrong."""
MACHINE_WORDS = ("no CUDA-capable device", "busy or unavailable", "uncorrectable ECC", "driver version is insufficient",
                 "system not yet initialized", "NVLink", "No CUDA GPUs are available", "no kernel image",
                 "fell off the bus", "driver error 100", "driver error 214", "driver error 46")  # fmt: skip
"""What the driver reports when the machine failed; no candidate can cause it."""
ENTRY_POINT = "ModelNew"
FORWARD = "_call_impl"
"""PyTorch's function that calls a module's forward; an exception that passes it comes from the forward."""
CONSTRUCTION = "construct"
"""`candidate.construct`; an exception that passes it comes from the candidate's constructor."""


def describe(error: BaseException, candidate: Path) -> Finding:
    """Return the finding for an exception.

    Args:
        error: the exception, with its traceback.
        candidate: the candidate's file; `where` of the finding names its innermost line on the traceback.

    Returns:
        A finding; of kind `infrastructure` if the candidate is not at fault.
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
    text = f"{type(error).__name__}: {' '.join(_words(error).split())}"[:600]
    if not own and not _caused_by_candidate(error, candidate):
        return Finding(kind="infrastructure", message=f"the evaluator's own process failed: {text}"[:600])
    kind, cure = _meaning(error)
    return Finding(kind=kind, message=text, where=where, cure=cure)


def _words(error: BaseException) -> str:
    """What an exception says. The compiler's own words and the line of the kernel come first, where it failed: Triton
    puts a dozen lines of code before them."""
    failed = [e for e in _chain(error) if type(e).__name__ in COMPILER_ERRORS and getattr(e, "error_message", None)]
    return _in_its_line(failed[-1]) if failed else str(error)


def _in_its_line(failed: Any) -> str:
    """What the compiler says of one line of a kernel."""
    lines, number = (failed.src or "").splitlines(), getattr(failed.node, "lineno", 0)
    line = lines[number - 1].strip() if 0 < number <= len(lines) else ""
    return f"{failed.error_message} (in `{line}`)" if line else str(failed.error_message)


def _caused_by_candidate(error: BaseException, candidate: Path) -> bool:
    """Whether the candidate caused an exception that has no frame of the candidate on its traceback."""
    names = {type(e).__name__ for e in _chain(error)}
    words = " ".join(str(e) for e in _chain(error))
    if names & COMPILER_ERRORS or "PassManager" in words:
        return True
    if any(word in words for word in MACHINE_WORDS):
        return False
    if any(frame.name in (FORWARD, CONSTRUCTION) for frame in _frames(error)) or ENTRY_POINT in words:
        return True
    ran = any(getattr(module, "__file__", None) == str(candidate) for module in sys.modules.copy().values())
    from_running = isinstance(error, MemoryError | RecursionError) or _has_any(
        words, (*KERNEL_WORDS, *OUT_OF_MEMORY_WORDS)
    )
    return ran and from_running


def _meaning(error: BaseException) -> tuple[FindingKind, str]:
    """Return the kind of finding and its cure, as far as the exception's type or text tells them."""
    name, words = type(error).__name__, str(error)
    if isinstance(error, MemoryError) or _has_any(words, OUT_OF_MEMORY_WORDS):
        return "memory_exceeded", "allocate only what one forward needs; sizes come from the inputs"
    if name == "OutOfResources" and "shared memory" in words:
        return "shared_memory_exceeded", "take smaller blocks or fewer num_stages"
    if TOO_MANY_PROGRAMS in words:
        return "programs_not_resident", "launch fewer programs, each with more of the work"
    if name in COMPILER_ERRORS or "PassManager" in words:
        return "kernel_compile_error", ""
    if _has_any(words, ASSERT_WORDS):
        return "device_assert", "a tl.device_assert, or an index that a library's kernel checks, failed on the GPU"
    if _has_any(words, ILLEGAL_ACCESS_WORDS):
        return "out_of_bounds", "mask every load and store; look at offsets that may pass the end of a tensor"
    return "exception", ""


def _has_any(words: str, phrases: tuple[str, ...]) -> bool:
    return any(phrase in words for phrase in phrases)


def _frames(error: BaseException) -> traceback.StackSummary:
    return traceback.extract_tb(error.__traceback__)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and its causes, outermost first, at most ten (Triton wraps what a kernel raises)."""
    seen: BaseException | None = error
    for _ in range(10):
        if seen is None:
            return
        yield seen
        seen = seen.__cause__ or seen.__context__

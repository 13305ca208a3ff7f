"""Turn what the compiler raises and prints into a fault with the candidate's line."""

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from egg_graph.evaluator.wire.faults import KernelFault
from egg_graph.evaluator.wire.launches import Launch
from egg_graph.schema import FindingKind

CURES = {
    "Break": "Triton has no break: run the loop to its end and mask, or compute its bound first.",
    "Continue": "Triton has no continue: put the rest of the loop's body under an if or a mask.",
    "Return": "Return only at the end of a kernel: mask instead.",
    "list": "Triton has no lists: use tl.static_range and separate variables.",
    "no attribute": "Use a function that triton.language has, or one from triton.language.extra.libdevice.",
    "power of 2": "Block sizes must be powers of two: take triton.next_power_of_2 and mask the rest.",
    "Loop-carried variable": "Give the variable its final type and shape before the loop.",
    "global variable": "Pass the value as an argument, or declare the global as tl.constexpr.",
    "Input shapes should have": "tl.dot needs blocks of at least 16 along every dimension.",
    "invalid instruction": "Inline PTX runs on NVIDIA only: for AMD write it in Triton.",
    "Both operands must be same dtype": "Cast both operands of tl.dot to one dtype.",
}
"""Part of the compiler's message -> how to mend the kernel."""


class CapturedStderr:
    """What Python and the compiler's C++ print to standard error, collected in a file."""

    def __init__(self, file: Any) -> None:
        self.file = file

    def text(self) -> str:
        """Return everything printed so far."""
        sys.stderr.flush()
        self.file.seek(0)
        return self.file.read().decode(errors="replace")


@contextmanager
def capture_stderr() -> Iterator[CapturedStderr]:
    """Divert file descriptor 2, where MLIR prints why a pass failed. Print the first 4000 bytes there at the end."""
    saved = os.dup(2)
    with tempfile.TemporaryFile() as file:
        sys.stderr.flush()
        os.dup2(file.fileno(), 2)
        messages = CapturedStderr(file)
        try:
            yield messages
        finally:
            text = messages.text()
            os.dup2(saved, 2)
            os.close(saved)
            os.write(2, text.encode()[:4000])


def compiler_fault(error: Exception, printed: str, kernel: Any, launch: Launch) -> KernelFault:
    """Make a fault of what the compiler raised and printed.

    Args:
        error: the compiler's exception.
        printed: its output to standard error.
        kernel: the `JITFunction`.
        launch: the launch that was compiled.
    """
    from triton.compiler.errors import CompilationError, UnsupportedLanguageConstruct

    causes = _causes(error)
    located = [e for e in causes if isinstance(e, CompilationError) and hasattr(e.node, "lineno")]
    unsupported = any(isinstance(e, UnsupportedLanguageConstruct) for e in causes)
    if located:
        innermost = located[-1]
        line = _line_in_file(innermost, kernel, launch)
        message = innermost.error_message or _first_line(causes[-1])
    else:
        line = _line_in_message(printed) or launch.line
        message = _first_line(error)
        details = [text for text in printed.splitlines() if "error:" in text]
        if details:
            message = f"{message}: {details[0].partition('error:')[2].strip()}"
    source = _source_line(kernel, line)
    quoted = f"{message} (in `{source}`)" if source else message
    kind: FindingKind = "unsupported_in_kernel" if unsupported else "kernel_compile_error"
    cure = next((cure for mark, cure in CURES.items() if mark in message), "")
    return KernelFault(kind, quoted, f"kernel {launch.kernel}, line {line}", cure)


def _causes(error: BaseException) -> list[BaseException]:
    """Return an error and its causes, outermost first."""
    chain = [error]
    while chain[-1].__cause__ is not None:
        chain.append(chain[-1].__cause__)
    return chain


def _first_line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__


def _line_in_file(error: Any, kernel: Any, launch: Launch) -> int:
    """Return the line of a compilation error in the candidate's file.

    The error counts lines from the `def` of its function, so that function is looked up in the file.
    """
    first = _definition(error.src or "")
    lines = _file_lines(kernel)
    for number, text in enumerate(lines, start=1):
        if first and text.strip() == first:
            return number + error.node.lineno - 1
    return launch.line + error.node.lineno - 1


def _definition(source: str) -> str:
    """Return the first `def` line of a function's source; empty if there is none."""
    return next((line.strip() for line in source.splitlines() if line.strip().startswith("def ")), "")


def _file_lines(kernel: Any) -> list[str]:
    with open(kernel.fn.__code__.co_filename) as file:
        return file.read().splitlines()


def _source_line(kernel: Any, line: int) -> str:
    lines = _file_lines(kernel)
    return lines[line - 1].strip() if 0 < line <= len(lines) else ""


def _line_in_message(printed: str) -> int:
    """Return the line that MLIR prints as `file.py:12:34: error:`; 0 if there is none."""
    match = re.search(r"\.py\"?:(\d+):\d+\)?:? error", printed)
    return int(match.group(1)) if match else 0

"""Whose fault an exception in the worker is."""

import ast
import traceback
from pathlib import Path

import pytest

from egg_graph.evaluator.evidence.shape_refusals import shape_refusal
from egg_graph.evaluator.host.exceptions import describe
from egg_graph.evaluator.wire.faults import KernelFault

CANDIDATE = """
def forward(x):
    return library(x)

def library(x):
    return int(x)

def leave():
    raise SystemExit(0)
"""
FILLING = 40 * "    filling = tl.load(x)  # a line before the one at fault\n"
KERNEL = f"def kernel(x, o):\n{FILLING}    product = tl.dot(a, b)\n"


@pytest.fixture
def candidate(tmp_path: Path) -> Path:
    path = tmp_path / "candidate.py"
    path.write_text(CANDIDATE)
    return path


def _raised(candidate: Path, call: str) -> BaseException:
    names: dict[str, object] = {}
    exec(compile(CANDIDATE, str(candidate), "exec"), names)
    with pytest.raises(BaseException) as raised:
        eval(call, names)
    traceback.clear_frames(raised.tb)
    return raised.value


def test_what_the_candidates_code_raises_is_its_own_and_points_at_its_line(candidate: Path) -> None:
    finding = describe(_raised(candidate, "forward('x')"), candidate)
    assert (finding.kind, finding.where) == ("exception", "line 6, in library: return int(x)")
    assert describe(_raised(candidate, "leave()"), candidate).kind == "exited"


@pytest.mark.parametrize(
    "error",
    [
        KeyError("do"),
        RuntimeError("CUDA driver error 46"),
        RuntimeError("CUDA error: uncorrectable ECC error encountered"),
        RuntimeError("CUDA error: an illegal memory access was encountered"),  # no candidate was loaded here
    ],
    ids=str,
)
def test_what_nobody_of_the_candidate_raised_is_ours(candidate: Path, error: Exception) -> None:
    assert describe(error, candidate).kind == "infrastructure"


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("CUDA error: device-side assert triggered", "device_assert"),
        (
            "CUDA error: an illegal memory access was encountered\nCompile with `TORCH_USE_CUDA_DSA` to enable "
            "device-side assertions.",
            "out_of_bounds",
        ),
        ("CUDA error: unspecified launch failure", "exception"),
        ("Triton Error [CUDA]: too many blocks in cooperative launch", "programs_not_resident"),
        ("CUDA out of memory. Tried to allocate 2 GiB", "memory_exceeded"),
    ],
)
def test_what_only_a_kernel_can_have_done_is_the_candidates(
    candidate: Path, monkeypatch: pytest.MonkeyPatch, words: str, kind: str
) -> None:
    import sys
    from types import ModuleType

    loaded = ModuleType("candidate_candidate")
    loaded.__file__ = str(candidate)
    monkeypatch.setitem(sys.modules, "candidate_candidate", loaded)
    assert describe(RuntimeError(words), candidate).kind == kind


def test_a_fault_inside_another_error_is_told_and_so_is_a_wrong_entry_point(candidate: Path) -> None:
    error = RuntimeError("wrapped")
    error.__cause__ = KernelFault("write_race", "two programs write")
    assert describe(error, candidate).kind == "write_race"
    message = "ModelNew.__init__() missing 1 required positional argument: 'n'"
    assert describe(TypeError(message), candidate).kind == "exception"


def test_what_the_compiler_says_is_told_before_the_code_that_it_quotes(candidate: Path) -> None:
    errors = pytest.importorskip("triton.compiler.errors")
    call = ast.parse(KERNEL).body[0].body[-1].value  # type: ignore[attr-defined]
    refusal = "AssertionError('Input shapes should have M >= 1, N >= 1 and K >= 16')"
    inner = errors.CompilationError(KERNEL, call, refusal)
    outer = errors.CompilationError("def caller():\n    kernel(x, o)\n", ast.parse("caller()").body[0])
    outer.__cause__ = inner
    for error in (inner, outer):
        finding = describe(error, candidate)
        assert finding.message == f"CompilationError: {refusal} (in `product = tl.dot(a, b)`)"
        assert shape_refusal([finding]) is finding, "the operands of a product are too small for the hardware"

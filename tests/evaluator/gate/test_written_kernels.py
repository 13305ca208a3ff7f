"""Sources that kernels are given at run time are judged as what stands in the file."""

import importlib.util

import pytest
from triton.runtime import jit

from egg_graph.evaluator.gate import audit
from egg_graph.evaluator.gate.written_kernels import check_written, judge_written, source_of, watch_sources
from egg_graph.evaluator.wire.faults import KernelFault
from tests.paths import CORPUS

PATH = CORPUS / "right" / "formula_written_at_run_time.py"


@pytest.fixture
def kernel():
    spec = importlib.util.spec_from_file_location("written", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.elementwise_kernel


@pytest.fixture
def function(kernel):
    return kernel.fn


def test_a_source_without_a_fault_may_be_written(function) -> None:
    text = source_of(function)
    assert text.startswith("def elementwise_kernel(")
    assert check_written(function, text.replace("FORMULA", "tl.exp(x)")) is None


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("tl.exp(x) + torch.os.cpu_count()", "forbidden_construct"),
        ("eval('1')", "forbidden_construct"),
        ("x, mask=places < n)\n    import ctypes\n    tl.store(out_ptr + places, x", "forbidden_import"),
        ("x, mask=places < n)\n    for i in range(2):\n        break\n    (x", "unsupported_in_kernel"),
        ("x, mask=places < n)\n\n\ndef other():\n    (x", "forbidden_construct"),
        ("x x", "syntax_error"),
    ],
)
def test_what_the_gate_refuses_in_a_file_it_refuses_in_a_written_source(function, text: str, kind: str) -> None:
    rest = "" if "mask" in text else ", mask=places < n"
    written = source_of(function).replace("FORMULA, mask=places < n", text + rest)
    with pytest.raises(KernelFault) as caught:
        judge_written(function, written)
    assert caught.value.kind == kind


def test_triton_compiles_no_source_that_was_not_judged(kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit.JITCallable, "parse", jit.JITCallable.parse)
    monkeypatch.setattr(audit, "_watched", {str(PATH)})
    watch_sources()
    watch_sources()
    text = kernel.src
    kernel.parse()
    kernel._unsafe_update_src(text.replace("FORMULA", "tl.exp(x)"))
    kernel.parse()
    kernel._unsafe_update_src(text.replace("FORMULA", "tl.exp(x) + torch.os.cpu_count()"))
    with pytest.raises(KernelFault, match=r"torch\.os"):
        kernel.parse()

"""What the two kinds of child process must be started with, and what importing the packages costs."""

import subprocess
import sys

import pytest

from egg_graph.evaluator.aot import compile_launch
from egg_graph.evaluator.interpreter import install
from egg_graph.evaluator.wire.faults import KernelFault
from egg_graph.evaluator.wire.launches import Launch


def test_interpreting_needs_the_interpreter_switched_on(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(RuntimeError, match="TRITON_INTERPRET=1"):
        install()


def test_compiling_needs_the_interpreter_switched_off(monkeypatch, h200, tmp_path):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    launch = Launch(kernel="k", line=1, grid=(1, 1, 1), signature={}, programs=1, executed=1)
    with pytest.raises(RuntimeError, match="without TRITON_INTERPRET"):
        compile_launch(tmp_path / "candidate.py", launch, h200)


def test_packages_import_neither_torch_nor_triton():
    code = (
        "import sys, egg_graph.evaluator.interpreter, egg_graph.evaluator.aot, egg_graph.evaluator.gpuless.roofline;"
        "assert not {'torch', 'triton'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_fault_survives_pickling_and_becomes_a_finding():
    import pickle

    fault = pickle.loads(pickle.dumps(KernelFault("out_of_bounds", "too far", "line 3", "mask it")))
    finding = fault.finding()
    assert (finding.kind, finding.message, finding.where, finding.cure) == (
        "out_of_bounds",
        "too far",
        "line 3",
        "mask it",
    )
    assert str(fault) == "too far (line 3)"

"""PTX in a kernel, as the guarded interpreter executes it: predicates, selections, immediate numbers."""

import numpy as np
import pytest

from egg_graph.evaluator.interpreter.inline_asm import execute
from egg_graph.evaluator.wire.faults import KernelFault

SOFTPLUS = """{
    .reg .pred p;
    setp.gt.f32 p, $1, 15.;
    @p mov.f32 $0, $1;
    @!p ex2.approx.ftz.f32 $0, $1;
    @!p add.f32 $0, $0, 1.0;
    @!p lg2.approx.ftz.f32 $0, $0;
}"""


def executed(asm: str, **registers: np.ndarray) -> dict[str, np.ndarray]:
    held = {f"${name[1:]}": value for name, value in registers.items()}
    execute(asm, held)
    return held


def test_a_predicate_decides_for_each_element():
    x = np.array([-3.0, 0.0, 14.0, 15.0, 16.0, 80.0], np.float32)
    answer = executed(SOFTPLUS, _1=x)["$0"].view(np.float32)
    expected = np.where(x > 15, x, np.log2(np.exp2(np.minimum(x, 20).astype(np.float64)) + 1))
    assert np.allclose(answer, expected, rtol=1e-5, atol=1e-6)
    assert np.array_equal(answer[4:], x[4:]), "these are moved"


def test_a_comparison_with_nan_is_false():
    x, y = np.array([1.0, np.nan, 2.0], np.float32), np.array([1.0, 1.0, 1.0], np.float32)
    for comparison, holds in {"eq": [1, 0, 0], "ne": [0, 0, 1], "ge": [1, 0, 1], "lt": [0, 0, 0]}.items():
        held = executed(f"setp.{comparison}.f32 p, $1, $2; selp.f32 $0, $1, $2, p;", _1=x, _2=y)
        assert held["p"].tolist() == holds
    signed = executed("setp.lt.s32 p, $1, 0;", _1=np.array([-1, 1], np.int32))["p"]
    unsigned = executed("setp.lt.u32 p, $1, 5;", _1=np.array([-1, 1], np.int32))["p"]
    assert (signed.tolist(), unsigned.tolist()) == ([1, 0], [0, 1])


def test_what_no_predicate_wrote_is_no_number():
    held = executed("setp.gt.f32 p, $1, 0.0; @p mov.f32 $0, $1;", _1=np.array([1.0, -1.0], np.float32))
    assert np.isnan(held["$0"].view(np.float32)).tolist() == [False, True]


def test_other_instructions_are_refused_by_name(monkeypatch):
    from egg_graph.evaluator.interpreter import inline_asm

    monkeypatch.setattr(inline_asm, "current_run", lambda: type("Run", (), {"where": lambda self: "kernel k"})())
    with pytest.raises(KernelFault, match=r"it does not know 'bra done'"):
        executed("bra done;")

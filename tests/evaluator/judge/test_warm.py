"""A judge that warms up for another one's finalist."""

import sys
from typing import Any

import pytest

from egg_graph.evaluator.judge import process
from egg_graph.evaluator.problem import shapes
from egg_graph.evaluator.problem.case_store import choose_shapes
from tests.evaluator.gpu.stand_ins import REFERENCE


def test_to_warm_up_makes_no_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    made, warmed = [], []

    class Made:
        def answer(self, method: str, params: dict[str, Any]) -> str:
            return method

    def make() -> Any:
        made.append(Made())
        return made[-1]

    monkeypatch.setattr(process, "warm", warmed.append)
    judge = process.LazyJudge(make)
    judge.answer("warm", {"task": "this"}, 0.0)
    assert (made, warmed) == ([], ["this"])
    assert [judge.answer(method, {}, 0.0) for method in ("evaluate", "release")] == ["evaluate", "release"]
    assert len(made) == 1


def test_warming_up_finds_the_shapes_that_the_evaluation_then_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch._inductor.compile_fx", sys)  # to import it takes seconds
    process.warm({"reference": REFERENCE})
    monkeypatch.setattr(shapes, "ShapeSearch", None)
    assert choose_shapes(REFERENCE)[1], "nothing is searched for again"

"""What other judges on the same GPU may have spoilt is judged again without them."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from egg_graph.evaluator.evidence.builder import EvaluationBuilder
from egg_graph.evaluator.judge.judge import Judge
from egg_graph.schema import Candidate, Hardware, KernelTask
from tests.evaluator.gpu.stand_ins import REFERENCE


class Ladder:
    """Runs out of memory at first."""

    def __init__(self, judge: Judge, crowded: bool) -> None:
        self.judge, self.crowded = judge, crowded
        self.alone: list[bool] = []

    def evaluate(self, *asked: Any) -> tuple[EvaluationBuilder, Any]:
        self.alone.append(self.judge.access.alone)
        self.judge.access.crowded = self.crowded
        builder = EvaluationBuilder()
        if len(self.alone) == 1:
            builder.short_of_memory = "the GPU's memory does not hold the full shape"
            return builder, ("correct", "right wherever it was compared; no speed is told")
        return builder, ("faster", "2.00x")


@pytest.mark.parametrize("crowded", [True, False])
def test_a_kernel_without_memory_is_judged_again_alone_where_others_were(
    tmp_path: Path, h200: Hardware, crowded: bool
) -> None:
    settings = {"device": "none", "timeout": 60.0, "seed": None, "profile": False, "gpu": None}
    server: Any = SimpleNamespace(stop=lambda: None)
    judge = Judge(settings, tmp_path, server, server)
    ladder: Any = Ladder(judge, crowded)
    judge.gpu = ladder
    task = KernelTask(name="linear", reference=REFERENCE, target=h200, precision="ieee")
    candidate = Candidate(source="def (", author="test", stage="algorithmic_structure", mode="seed")
    told = judge.evaluate(task, candidate, None, False)
    assert ladder.alone == ([False, True] if crowded else [False])
    assert told.status == ("faster" if crowded else "correct")
    assert any("does not hold" in rung.statement for rung in told.rungs if rung.name == "clean_workers") == crowded

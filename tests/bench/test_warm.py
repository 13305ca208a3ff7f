"""What `tests.lab warm` measures: kernels that differ, by an evaluator that knows the task."""

import json
from contextlib import nullcontext

from egg_graph.schema import Hardware, KernelTask
from tests.graph.scripted import REFERENCE, ScriptedEvaluator
from tests.lab import warm


def test_every_evaluation_gets_another_kernel(h200: Hardware, tmp_path, monkeypatch) -> None:
    judged = []

    class Listening(ScriptedEvaluator):
        def evaluate(self, task, candidate, **how):
            judged.append(candidate)
            return super().evaluate(task, candidate.model_copy(update={"source": "# ok 4"}), **how)

    monkeypatch.setattr(warm, "LocalEvaluator", lambda device: nullcontext(Listening()))
    task = KernelTask(name="relu", reference=REFERENCE, target=h200)
    results = warm.run_warm([task], tmp_path / "warm", device="none", repeats=2)
    assert len({candidate.program for candidate in judged}) == 3, "the first one and two that are timed"
    (row,) = results.rows
    assert (row.status, len(row.seconds)) == ("correct", 2) and 0 < row.median == results.median
    assert json.loads((tmp_path / "warm.json").read_text())["summary"]["median_seconds"] == results.median
    assert "| relu | correct |" in (tmp_path / "warm.md").read_text()

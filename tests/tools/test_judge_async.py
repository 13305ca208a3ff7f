"""An asynchronous evaluator behind the tool and the graph that judge one kernel."""

from pathlib import Path

from egg_graph import Context, build_judging_graph
from egg_graph.tools.judge import judge_kernel
from tests.graph.scripted import REFERENCE, ScriptedEvaluator, kernel


class AsyncEvaluator(ScriptedEvaluator):
    """Answers as the scripted one does, from coroutines."""

    async def baseline(self, task):
        return super().baseline(task)

    async def evaluate(self, task, candidate, **options):
        return super().evaluate(task, candidate, **options)


def test_the_graph_and_the_tool_wait_for_coroutines(tmp_path: Path) -> None:
    given = {"reference": REFERENCE, "kernel": kernel("ok")}
    state = build_judging_graph(AsyncEvaluator()).invoke(given)
    assert state["status"] == "correct" and state["baseline"].task == state["evaluation"].task
    result = judge_kernel(REFERENCE, kernel("ok"), Context(), evaluator=AsyncEvaluator(), runs_dir=tmp_path)
    assert result["status"] == "correct"

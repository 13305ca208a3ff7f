"""The kernel about to be handed over is judged once more, thoroughly; the next best steps in where it is rejected."""

import pytest

from egg_graph import Context, build_egg_graph
from egg_graph.nodes.conclude import FINALISTS
from tests.graph.scripted import REFERENCE, ScriptedEvaluator, ScriptedTeam, kernel, tunable

INPUT = {"reference": REFERENCE}


def run(script, worth=(True,), **context):
    evaluator = ScriptedEvaluator()
    graph = build_egg_graph(team=ScriptedTeam(script, worth), evaluator=evaluator, principles=())
    return graph.invoke(INPUT, context=Context(target="h100", **context)), evaluator


def test_what_is_handed_over_was_judged_as_a_finalist_once():
    state, evaluator = run([kernel("ok", 2)], worth=[False])
    assert evaluator.finalists == [state["best"].id] and state["kernel"] == kernel("ok", 2)


def test_the_text_with_plain_constants_is_the_finalist():
    state, evaluator = run([tunable("ok", 3, "tensor_tiling", [3, 2])], worth=[False])
    assert state["kernel"] == "# ok 3\nprint(2)\n"
    assert evaluator.finalists == [state["best"].id]


def test_a_finalist_that_is_rejected_gives_way_to_the_next_best():
    state, evaluator = run([kernel("ok", 5), kernel("ok", 9), kernel("flaky", 2)], max_optimizations=2)
    assert (state["status"], state["kernel"]) == ("correct", kernel("ok", 5))
    assert len(evaluator.finalists) == 2
    assert "a finalist's checks rejected it: incorrect" in state["verdict"]


@pytest.mark.parametrize("count", [1, 9])
def test_where_no_finalist_passes_the_reference_is_kept(count):
    state, evaluator = run([kernel("flaky", 99 - number) for number in range(count)])
    assert (state["status"], state["kernel"]) == ("reference_kept", "")
    assert state["best"] is None and state["evaluation"] is None
    assert len(evaluator.finalists) == min(count, FINALISTS)
    assert "passed a finalist's checks" in state["verdict"]

"""The kernel about to be handed over is judged once more, thoroughly; the next best steps in where it is rejected."""

import pytest

from egg_graph import Context, build_egg_graph
from egg_graph.nodes.conclude import FINALISTS
from tests.graph.scripted import REFERENCE, ScriptedEvaluator, ScriptedTeam, kernel, tunable

INPUT = {"reference": REFERENCE}


def run(script, worth=(True,), evaluator=None, **context):
    evaluator = evaluator or ScriptedEvaluator()
    graph = build_egg_graph(team=ScriptedTeam(script, worth), evaluator=evaluator, principles=())
    return graph.invoke(INPUT, context=Context(target="h100", **context)), evaluator


def test_what_is_handed_over_was_judged_as_a_finalist_once():
    state, evaluator = run([kernel("ok", 2)], worth=[False])
    assert evaluator.finalists == [state["best"].id] and state["kernel"] == kernel("ok", 2)


def test_the_text_with_plain_constants_is_the_finalist():
    state, evaluator = run([tunable("ok", 3, "tensor_tiling", [3, 2])], worth=[False])
    assert state["kernel"] == "# ok 3\nprint(2)\n"
    assert evaluator.finalists == [state["best"].id]


class Unsure(ScriptedEvaluator):
    """Tells of every finalist that nothing is certain about its speed."""

    def evaluate(self, task, candidate, *, stage=None, finalist=False):
        found = super().evaluate(task, candidate, stage=stage, finalist=finalist)
        return found.model_copy(update={"status": "inconclusive"}) if finalist else found


class Tied(ScriptedEvaluator):
    """Measures every kernel as PyTorch's equal."""

    high, by = 1.004, "events"

    def evaluate(self, task, candidate, *, stage=None, finalist=False):
        found = super().evaluate(task, candidate, stage=stage, finalist=finalist)
        level = {"ratio": 1.0, "ratio_low": 0.99, "ratio_high": self.high, "clock": self.by}
        return found.model_copy(update={"status": "inconclusive", "timing": found.timing.model_copy(update=level)})


class Open(Tied):
    """Its intervals leave open whether a kernel is faster."""

    high = 1.03


class Disputed(Tied):
    """Its clocks disagree."""

    by = "host"


@pytest.mark.parametrize(
    ("word", "evaluator", "finalists", "says"),
    [
        ("timed", Tied, 0, "right, but not faster with confidence"),
        ("timed", Open, 1, "right, but not faster with confidence"),
        ("timed", Disputed, 1, "right, but not faster with confidence"),
        ("slow", ScriptedEvaluator, 0, "right, but slower: 8 ms against 4 ms of PyTorch (eager)"),
        ("timed", Unsure, 1, "right, but not faster with confidence: 8 ms against 4 ms"),
    ],
)
def test_a_kernel_is_handed_over_only_if_it_is_faster_with_confidence(word, evaluator, finalists, says):
    state, asked = run([kernel(word, 8)], worth=[False], evaluator=evaluator())
    assert (state["status"], state["kernel"], state["best"]) == ("reference_kept", "", None)
    assert state["verdict"].startswith("The reference is kept: the best kernel") and says in state["verdict"]
    assert list(state["finalists"].values()) == ["slower" if word == "slow" else "inconclusive"]
    assert len(asked.finalists) == finalists, "what is known to be no faster is not judged once more"
    assert "--accept right" in state["verdict"]


def test_a_slower_kernel_is_handed_over_at_the_users_wish():
    state, asked = run([kernel("slow", 8)], worth=[False], accept="right")
    assert (state["status"], state["kernel"]) == ("slower", kernel("slow", 8)) and len(asked.finalists) == 1


def test_a_finalist_that_is_rejected_gives_way_to_the_next_best():
    state, evaluator = run([kernel("ok", 5), kernel("ok", 9), kernel("flaky", 2)], max_optimizations=2)
    assert (state["status"], state["kernel"]) == ("correct", kernel("ok", 5))
    assert len(evaluator.finalists) == 2
    assert list(state["finalists"].values()) == ["incorrect", "correct"]
    assert "a finalist's checks rejected it: incorrect" in state["verdict"]


@pytest.mark.parametrize("count", [1, 9])
def test_where_no_finalist_passes_the_reference_is_kept(count):
    state, evaluator = run([kernel("flaky", 99 - number) for number in range(count)])
    assert (state["status"], state["kernel"]) == ("reference_kept", "")
    assert state["best"] is None and state["evaluation"] is None
    assert len(evaluator.finalists) == min(count, FINALISTS)
    assert "passed a finalist's checks" in state["verdict"]

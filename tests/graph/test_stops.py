"""What a run does not pay for: a program judged twice, and plans for a kernel that is at the task's floor."""

import pytest

from egg_graph import Context, build_egg_graph
from egg_graph.schema import STAGE_METRICS, Candidate
from tests.graph.scripted import FLOOR, REFERENCE, ScriptedEvaluator, ScriptedTeam, kernel, tunable

STAGES = tuple(STAGE_METRICS)
PROGRAM = "'''Softmax.'''\nimport torch\n\ndef forward(x):\n    \"\"\"Scale.\"\"\"\n    return x * 2\n"


def go(team, evaluator=None, **knobs):
    graph = build_egg_graph(team=team, evaluator=evaluator or ScriptedEvaluator(), principles=())
    return graph.invoke({"reference": REFERENCE}, context=Context(target="h200", **knobs))


def program(source):
    return Candidate(source=source, author="t", stage=STAGES[0], mode="seed").program


@pytest.mark.parametrize(
    ("source", "same"),
    [
        ("# another comment\nimport torch\ndef forward(x): return (x*2)", True),
        (PROGRAM.replace("Scale", "Twice as much"), True),
        (PROGRAM.replace("* 2", "* 2.0"), False),
        (PROGRAM.replace("(x)", "(y)").replace("x *", "y *"), False),
        ("def (", False),
    ],
)
def test_a_program_is_its_source_without_comments_docstrings_and_formatting(source, same):
    assert (program(source) == program(PROGRAM)) is same


def test_a_program_that_was_judged_costs_no_evaluation_and_its_author_is_told():
    first, again = kernel("ok", 3, "x = 1  # the first\n"), kernel("ok", 3, "x = 1\n# the same\n")
    team, evaluator = ScriptedTeam([first, again, kernel("ok", 2, "x = 2")]), ScriptedEvaluator()
    state = go(team, evaluator, stages=STAGES[:1])
    assert len(evaluator.evaluated) == 2
    assert [a.repeats for a in state["attempts"]] == [None, 1, None]
    repeat = state["attempts"][1]
    assert repeat.evaluation.candidate == repeat.candidate.id != state["attempts"][0].candidate.id
    assert not repeat.improved and not repeat.undecided
    told = [brief for role, brief in team.briefs if role == "analyst"][1]
    assert told.attempts[1].repeats == 1 and len(told.dead_ends) == 1
    assert "the same program as attempt 1" in state["summaries"][0].failed[0]


def test_a_kernel_at_the_floor_is_planned_for_no_more_and_its_knobs_are_swept():
    best = FLOOR * 1.04
    team, evaluator = ScriptedTeam([tunable("timed", best, STAGES[2], [best, 4])]), ScriptedEvaluator(clock=True)
    state = go(team, evaluator)
    assert team.calls() == ["coder"] and evaluator.screened == [2]
    assert [s.outcome for s in state["summaries"]] == ["improved", *["at_the_floor"] * 3]
    assert "1.04 times the task's floor" in state["summaries"][1].left and "1.04 times" in state["verdict"]


@pytest.mark.parametrize(
    ("word", "times", "knobs"), [("timed", 1.06, {}), ("ok", 1.0, {}), ("timed", 1.0, {"near_floor": 0})]
)
def test_any_other_is_optimized(word, times, knobs):
    team = ScriptedTeam([kernel(word, FLOOR * times)], worth=[False])
    go(team, ScriptedEvaluator(clock=True), stages=STAGES[:1], **knobs)
    assert team.calls() == ["coder", "analyst"]


def test_no_model_is_asked_where_the_contender_is_at_the_floor(monkeypatch):
    expert = ScriptedTeam([kernel("timed", FLOOR)])
    monkeypatch.setattr("egg_graph.nodes.services.resolve_team", lambda _: expert)
    team = ScriptedTeam([kernel("timed", 4)], calls_models=True)
    state = go(team, ScriptedEvaluator(clock=True))
    assert team.calls() == [] and state["kernel"] == kernel("timed", FLOOR)
    assert {s.outcome for s in state["summaries"]} == {"at_the_floor"}

"""What a run does not pay for: a program judged twice, and plans for a kernel that is at the task's floor."""

import pytest

from egg_graph import Context, build_egg_graph
from egg_graph.schema import STAGE_METRICS, Candidate, Usage
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


COSTLY = Usage(calls=1, dollars=0.1)


@pytest.mark.parametrize(("least", "planned"), [(0, True), (240, True), (260, False)])
def test_no_plan_is_made_where_even_the_floor_would_not_be_worth_its_price(least, planned):
    """A seed for $0.1 and 25 % above the floor: at most 250 % per dollar."""
    team = ScriptedTeam([kernel("timed", FLOOR / 0.75)], worth=[False], usage=COSTLY)
    state = go(team, ScriptedEvaluator(clock=True), stages=STAGES[:1], min_gain_per_dollar=least)
    assert team.calls() == (["coder", "analyst"] if planned else ["coder"])
    told = "25 % less time, and a plan has cost $0.1 so far: at most 250 % per dollar, below min_gain_per_dollar (260)"
    assert (told in state["verdict"]) is not planned and (told in state["summaries"][0].left) is not planned


def test_a_stage_in_which_no_plan_is_worth_its_price_says_so():
    team = ScriptedTeam([kernel("timed", FLOOR / 0.75)], usage=COSTLY)
    state = go(team, ScriptedEvaluator(clock=True), stages=STAGES[:2], min_gain_per_dollar=260)
    assert [summary.outcome for summary in state["summaries"]] == ["improved", "not_worth_its_price"]
    assert team.calls() == ["coder"]


def test_without_a_clock_or_a_price_no_plan_is_left_out():
    for word, usage in (("ok", COSTLY), ("timed", None)):
        team = ScriptedTeam([kernel(word, 1)], worth=[False], usage=usage)
        go(team, ScriptedEvaluator(clock=word == "timed"), stages=STAGES[:1], min_gain_per_dollar=1e6)
        assert team.calls() == ["coder", "analyst"]


@pytest.mark.parametrize(("patience", "plans"), [(0, 4), (1, 2), (2, 4)])
def test_a_stage_is_given_up_after_so_many_plans_in_a_row_without_a_better_kernel(patience, plans):
    """The first plan brings a better kernel, the others do not."""
    team = ScriptedTeam([kernel("ok", n) for n in (9, 8, 20, 7, 21, 22)])
    state = go(team, stages=STAGES[:1], max_optimizations=4, patience=patience)
    assert team.calls().count("analyst") == plans
    assert ("(patience)" in state["summaries"][0].left) is (patience == 1)

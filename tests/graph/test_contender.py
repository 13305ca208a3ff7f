"""Attempt 0: the embedded expert's kernel is judged before a model is asked, and is the contender to beat."""

import pytest

from egg_graph import Context, build_egg_graph
from egg_graph.runs.evaluations import RecordedEvaluator, ReplayEvaluator
from egg_graph.schema import InfrastructureError, Usage
from tests.graph.scripted import REFERENCE, ScriptedEvaluator, ScriptedTeam, kernel, tunable

FIRST = "algorithmic_structure"
EXPERTS = kernel("ok", 5)


class Expert(ScriptedTeam):
    """Stands for the embedded expert."""

    def __init__(self, writes, error=None):
        super().__init__(writes, usage=Usage(seconds=0.5))
        self.name, self.error = "embedded expert", error

    def write(self, brief):
        if self.error is not None:
            raise self.error
        return super().write(brief)


@pytest.fixture
def go(monkeypatch):
    """Run a graph whose embedded expert writes `expert`."""

    def run(team, expert=EXPERTS, evaluator=None, error=None, given=None, **knobs):
        monkeypatch.setattr("egg_graph.nodes.services.resolve_team", lambda _: Expert([expert], error))
        graph = build_egg_graph(team=team, evaluator=evaluator or ScriptedEvaluator(), principles=())
        context = Context(target="h200", stages=(FIRST,), **knobs)
        parts = list(
            graph.stream({"reference": REFERENCE, **(given or {})}, context=context, stream_mode=["custom", "values"])
        )
        return [part for mode, part in parts if mode == "custom"], [part for mode, part in parts if mode == "values"][
            -1
        ]

    return run


def paid(*writes, worth=(False,)):
    return ScriptedTeam(writes, worth, calls_models=True)


def test_it_is_judged_before_the_team_is_asked_and_costs_no_token(go):
    team = paid(kernel("ok", 3))
    events, state = go(team)
    contender, seed = state["attempts"]
    assert (contender.number, contender.candidate.author, contender.candidate.source) == (0, "embedded expert", EXPERTS)
    assert contender.usage.calls == 0 and contender.improved
    assert (seed.number, seed.candidate.mode, seed.candidate.parent) == (1, "seed", None)
    told = [(e["event"], e.get("role"), e.get("attempt")) for e in events if e["event"] in ("attempt", "role")]
    assert told[:2] == [("attempt", None, 0), ("role", "coder", 1)]
    brief = team.briefs[0][1]
    assert brief.mode == "seed" and brief.contender.evaluation == contender.evaluation and brief.attempts == ()
    assert state["kernel"] == kernel("ok", 3) and "embedded expert" not in state["verdict"]


@pytest.mark.parametrize("word", ["ok 8", "bad 1"])
def test_a_run_never_ends_below_it(go, word):
    team = paid(f"# {word}\n")
    _, state = go(team, max_repairs=1, max_optimizations=0)
    assert state["kernel"] == EXPERTS and state["status"] == "correct"
    assert "no kernel of the team beat it" in state["verdict"]
    assert [s.outcome for s in state["summaries"]] == ["kept" if word == "ok 8" else "all_failed"]


def test_what_did_not_beat_it_is_followed_by_an_optimization_of_it(go):
    team = paid(kernel("ok", 8), kernel("ok", 4), worth=(True,))
    _, state = go(team, max_optimizations=1)
    analyst = team.briefs[1][1]
    assert analyst.kernel.source == EXPERTS and [a.number for a in analyst.attempts] == [1]
    assert state["attempts"][2].candidate.parent == state["attempts"][0].candidate.id
    assert state["kernel"] == kernel("ok", 4) and "no kernel of the team beat it" not in state["verdict"]


def test_it_takes_none_of_the_teams_attempts(go):
    _, state = go(paid(kernel("ok", 3), worth=(True,)), max_attempts=1)
    assert [a.number for a in state["attempts"]] == [0, 1]
    assert state["summaries"][0].attempts == 1


def test_one_that_is_wrong_is_told_and_beats_nobody(go):
    team = paid(kernel("ok", 9))
    _, state = go(team, expert=kernel("bad", 1))
    assert [(a.number, a.evaluation.status) for a in state["attempts"]] == [(0, "incorrect"), (1, "correct")]
    assert team.briefs[0][1].contender is None and state["kernel"] == kernel("ok", 9)


@pytest.mark.parametrize("error", [None, InfrastructureError("capturing took too long")])
def test_where_the_expert_has_no_kernel_one_line_says_so_and_the_run_goes_on(go, error):
    events, state = go(paid(kernel("ok", 3)), expert="", error=error)
    (told,) = [event for event in events if event["event"] == "contender"]
    assert told["status"] == "none" and ("capturing" if error else "no code in the answer") in told["reason"]
    assert [a.number for a in state["attempts"]] == [1] and state["kernel"] == kernel("ok", 3)


@pytest.mark.parametrize("why", ["knob", "team", "handed in"])
def test_there_is_none_without_need(go, why):
    team = paid(kernel("ok", 3))
    team.calls_models = why != "team"
    _, state = go(team, given={"kernel": kernel("ok", 7)} if why == "handed in" else {}, expert_seed=why != "knob")
    assert [a.number for a in state["attempts"]] == [1]


@pytest.mark.parametrize("number", range(4))
def test_a_replay_judges_the_kernel_that_was_attempt_0_and_not_its_finalist(go, tmp_path, number):
    recorded = RecordedEvaluator(lambda: ScriptedEvaluator(clock=True), tmp_path)
    written = tunable("ok", 1 + number / 8, FIRST, [2])
    _, before = go(paid(kernel("bad")), expert=written, evaluator=recorded)
    assert before["kernel"] != written and before["attempts"][0].candidate.source == written
    _, again = go(paid(kernel("bad")), expert="# of another version", evaluator=ReplayEvaluator(tmp_path))
    assert again["attempts"][0].candidate.source == written and again["kernel"] == before["kernel"]

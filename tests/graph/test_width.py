"""Several coders draft side by side: what becomes of their drafts, what they cost, and how such a run goes on."""

import itertools
import sqlite3
import threading

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

from egg_graph import Context, Insert, build_egg_graph
from egg_graph.expert import EmbeddedExpert
from egg_graph.knowledge import score_principles
from egg_graph.schema import BadInput, Draft, Usage
from egg_graph.steering.serde import checkpoint_serde
from tests.graph.scripted import REFERENCE, ScriptedEvaluator, ScriptedTeam, kernel

STAGE = "algorithmic_structure"
INPUT = {"reference": REFERENCE}
CONFIG = {"configurable": {"thread_id": "one"}}


class Drafters(ScriptedTeam):
    """Finds what it writes by the brief: (attempts of the stage so far, number of the draft) -> source.

    Args:
        plans: the analyst's further plans.
        declines: drafts that are declined, by number.
    """

    def __init__(self, writes=None, *, plans=(), declines=(), **options):
        super().__init__([], **options)
        self.sources, self.plans, self.declines = writes or {}, plans, declines

    def analyze(self, brief):
        told = {"plan": "the plan", "alternatives": self.plans, "principles": ("fuse",)}
        return super().analyze(brief).model_copy(update=told)

    def write(self, brief):
        self.briefs.append(("coder", brief))
        if brief.draft in self.declines:
            return Draft(declined="no way", usage=self.usage)
        place = len(brief.attempts), brief.draft
        source = self.sources.get(place, kernel("ok", 90 - 10 * place[0] - place[1]))
        return Draft(source=source, problem="" if source else "no code", usage=self.usage)


def go(team, evaluator=None, saver=None, given=INPUT, inserts=(), **knobs):
    parts = {"team": team, "evaluator": evaluator or ScriptedEvaluator(), "principles": (), "inserts": inserts}
    graph = build_egg_graph(**parts, checkpointer=saver)
    context = Context(**{"target": "h100", "max_optimizations": 1, "stages": (STAGE,), "width": 3, **knobs})
    return graph.invoke(given, CONFIG if saver else None, context=context)


def events_of(team, **knobs):
    graph = build_egg_graph(team=team, evaluator=ScriptedEvaluator(), principles=())
    knobs = {"target": "h100", "max_optimizations": 0, "stages": (STAGE,), "width": 3, **knobs}
    return list(graph.stream(INPUT, context=Context(**knobs), stream_mode="custom"))


def history(state):
    return [(a.number, a.candidate.source.strip("# \n"), a.improved, a.beside) for a in state["attempts"]]


def told(state):
    return {key: value for key, value in state.items() if key not in ("seconds", "usage", "costs", "summaries")}


def test_by_default_there_is_a_single_trajectory_and_nothing_of_drafts_is_saved():
    state = go(ScriptedTeam([kernel("bad", 1), kernel("ok", 9), kernel("ok", 8)]), width=1)
    assert [a.candidate.mode for a in state["attempts"]] == ["seed", "repair", "optimize"]
    saved = state["attempts"][2].model_dump_json()
    assert "beside" not in saved and "alternatives" not in saved
    assert not {"drafts", "side_by_side"} & state.keys()


def test_the_best_draft_goes_on_and_the_others_are_attempts_with_the_same_parent():
    team = Drafters({(0, 1): kernel("ok", 9), (0, 2): kernel("ok", 7), (0, 3): kernel("bad", 1)})
    state = go(team)
    assert history(state) == [
        (1, "ok 9", False, 1),
        (2, "bad 1", False, 1),
        (3, "ok 7", True, 1),
        (4, "ok 59", False, 4),
        (5, "ok 58", False, 4),
        (6, "ok 57", False, 4),
    ]
    assert {a.candidate.parent for a in state["attempts"][3:]} == {state["attempts"][2].candidate.id}
    assert state["kernel"] == kernel("ok", 7)
    assert [brief.drafts for role, brief in team.briefs if role == "analyst"] == [3]
    assert sorted((b.draft, b.drafts) for r, b in team.briefs if r == "coder") == sorted([(1, 3), (2, 3), (3, 3)] * 2)
    assert sum((a.usage for a in state["attempts"]), Usage()) == state["usage"]
    assert state["costs"]["coder"].calls == 6 and state["usage"].calls == 7


def test_a_draft_of_the_plan_that_went_on_is_no_dead_end():
    team = Drafters({(3, 1): kernel("bad", 1), (3, 2): kernel("ok", 5), (3, 3): kernel("ok", 6)})
    state = go(team, max_optimizations=2)
    last = [brief for role, brief in team.briefs if role == "analyst"][-1]
    assert [chain.outcome for chain in last.chains] == ["passed_over"] * 2 + ["improved"] + ["passed_over"] * 2 + [
        "improved"
    ]
    assert last.dead_ends == () and last.remaining.optimizations == 1
    (score,) = score_principles(state["attempts"])
    assert (score.applied, score.improved, score.missed) == (2, 1, 1), "once for each plan, by the draft that went on"
    (summary,) = state["summaries"]
    assert "another draft of it went on" in summary.tried[0] and not any("attempt 1 " in f for f in summary.failed)


def test_each_coder_gets_a_plan_of_its_own_as_far_as_the_analyst_has_some():
    state = go(Drafters(plans=("another plan",)))
    plans = {a.candidate.source: a.candidate.plan for a in state["attempts"][3:]}
    assert plans == {kernel("ok", 59): "the plan", kernel("ok", 58): "another plan", kernel("ok", 57): "the plan"}
    assert all(a.analysis.plan == a.candidate.plan for a in state["attempts"][3:])
    assert [a.effect is None for a in state["attempts"][3:]] == [False, True, False], "only one effect was predicted"


def test_where_none_is_right_the_one_that_came_furthest_is_repaired():
    state = go(Drafters({(0, 1): "", (0, 2): kernel("bad", 1), (0, 3): kernel("broken", 1)}), max_optimizations=0)
    assert [a.candidate.mode for a in state["attempts"]] == ["seed"] * 3 + ["repair"]
    assert state["attempts"][3].candidate.parent == state["attempts"][2].candidate.id
    assert state["attempts"][2].candidate.source == kernel("bad", 1)


def test_drafts_of_one_program_are_judged_once_and_told():
    evaluator, same = ScriptedEvaluator(), kernel("ok", 7) + "x = 1\n"
    team = Drafters({(0, 1): same, (0, 2): same.replace("1\n", "1  # as before\n"), (0, 3): kernel("ok", 8)})
    state = go(team, evaluator, max_optimizations=0)
    assert len(evaluator.evaluated) == 2
    assert [(a.candidate.source, a.usage.calls) for a in state["attempts"]] == [(kernel("ok", 8), 1), (same, 2)]
    dropped = [e for e in events_of(Drafters(team.sources)) if e.get("status") == "dropped"]
    assert [(e["draft"], e["reason"]) for e in dropped] == [(2, "the same program as draft 1")]


def test_a_program_of_an_earlier_attempt_is_told_as_a_repeat_and_not_judged_again():
    evaluator = ScriptedEvaluator()
    known = {(0, n): kernel("ok", n) for n in (1, 2, 3)} | {(3, n): kernel("ok", 4 - n) for n in (1, 2, 3)}
    state = go(Drafters(known), evaluator)
    assert len(evaluator.evaluated) == 3
    assert [a.repeats for a in state["attempts"][3:]] == [2, 1, 3] and state["kernel"] == kernel("ok", 1)


def test_a_draft_that_is_declined_is_no_attempt_and_all_of_them_end_the_stage():
    state = go(Drafters(declines={1, 3}), max_optimizations=0)
    assert history(state) == [(1, "ok 88", True, None)] and state["attempts"][0].usage.calls == 3
    nothing = go(Drafters(declines={1, 2, 3}))
    assert nothing["attempts"] == [] and nothing["summaries"][0].outcome == "no_kernel"
    assert nothing["usage"].calls == 3 == nothing["summaries"][0].usage.calls


def test_drafts_and_evaluations_run_side_by_side():
    meeting = threading.Barrier(3, timeout=20)

    class Together(Drafters):
        def write(self, brief):
            meeting.wait()
            return super().write(brief)

    class Pool(ScriptedEvaluator):
        def evaluate(self, task, candidate, **options):
            if not options["finalist"]:
                meeting.wait()
            return super().evaluate(task, candidate, **options)

    assert len(go(Together(), Pool(), max_optimizations=0)["attempts"]) == 3


@pytest.mark.parametrize(
    ("knobs", "attempts"),
    [
        ({"max_attempts": 2}, 2),
        ({"max_attempts": 4}, 3 + 1),
        ({"max_calls": 2}, 2),
        ({"max_calls": 5}, 3 + 1),
        ({"budgets": ("coder.calls=2",)}, 2),
        ({"budgets": (f"{STAGE}.calls=1",)}, 1),
    ],
)
def test_as_many_drafts_are_ordered_as_attempts_and_requests_are_left(knobs, attempts):
    state = go(Drafters(calls_models=True), expert_seed=False, **knobs)
    assert len(state["attempts"]) == attempts
    assert state["usage"].calls <= knobs.get("max_calls", 99)


def test_the_events_tell_how_many_drafts_are_ordered_and_which_one_works():
    told = events_of(Drafters(), max_attempts=2)
    assert [e["reason"] for e in told if e.get("status") == "side_by_side"] == [
        "2 drafts side by side, of 3: the budgets leave room for no more"
    ]
    alone = events_of(Drafters(), max_attempts=1)
    assert "1 draft, of 3: the budgets leave room for no more" in [e.get("reason") for e in alone]
    assert sorted(e["draft"] for e in told if e["event"] == "started" and e["node"] in ("draft", "judge")) == [
        1,
        1,
        2,
        2,
    ]
    assert [e["attempt"] for e in told if e["event"] == "attempt"] == [1, 2]


def test_a_budget_of_tokens_holds_for_all_drafts_together():
    """Those that are in work when it is used up end; no further one is begun."""
    team = Drafters(usage=Usage(calls=1, input_tokens=90, output_tokens=10))
    graph = build_egg_graph(team=team, evaluator=ScriptedEvaluator(), principles=())
    context = Context(target="h100", width=8, max_tokens=150, stages=(STAGE,))
    state = graph.invoke(INPUT, {"max_concurrency": 1}, context=context)
    assert state["usage"].tokens == 200 and len(state["attempts"]) == 2
    assert "max_tokens (150) reached" in state["verdict"]


def test_teams_that_gain_nothing_by_width_are_refused():
    with pytest.raises(BadInput, match="the drafts of embedded expert would all be the same"):
        go(EmbeddedExpert())


def test_nodes_of_ones_own_see_drafts_before_they_are_judged_and_attempts_after():
    seen = []

    def note(key):
        def node(state):
            seen.append((key, len(state.get("drafts", [])), len(state.get("attempts", []))))
            return {}

        return node

    where = {"first": {"before": "coder"}, "second": {"after": "coder"}, "third": {"before": "evaluator"}}
    inserts = [Insert(name=name, node=note(name), **place) for name, place in where.items()]
    inserts.append(Insert(name="last", node=note("last"), after="evaluator"))
    state = go(Drafters(), inserts=inserts, max_optimizations=0)
    assert seen == [("first", 0, 0), ("second", 3, 0), ("third", 3, 0), ("last", 0, 3)]
    assert len(state["attempts"]) == 3


class Crash(Exception):
    pass


class Failing:
    """Counts answers and evaluations, and lets the process fail instead of the one with this number."""

    def __init__(self, at=0):
        self.at, self.begun, self.paid = at, itertools.count(1), []

    def pay(self, what):
        if next(self.begun) == self.at:
            raise Crash
        self.paid.append(what)


class PaidTeam(Drafters):
    def __init__(self, bill):
        super().__init__({(0, 1): kernel("bad", 2), (0, 2): kernel("bad", 3)})
        self.bill = bill

    def write(self, brief):
        self.bill.pay(("coder", len(brief.attempts), brief.draft))
        return super().write(brief)

    def analyze(self, brief):
        self.bill.pay(("analyst", len(brief.attempts)))
        return super().analyze(brief)

    def debug(self, brief):
        self.bill.pay(("debugger", len(brief.attempts)))
        return super().debug(brief)


class PaidEvaluator(ScriptedEvaluator):
    def __init__(self, bill):
        super().__init__()
        self.bill = bill

    def evaluate(self, task, candidate, **options):
        self.bill.pay((candidate.id, options["finalist"]))
        return super().evaluate(task, candidate, **options)


def paid_run(path, bill, *, resumed=False):
    with sqlite3.connect(path, check_same_thread=False) as connection:
        graph = build_egg_graph(
            team=PaidTeam(bill),
            evaluator=PaidEvaluator(bill),
            principles=(),
            checkpointer=SqliteSaver(connection, serde=checkpoint_serde()),
        )
        context = Context(target="h100", width=2, max_optimizations=1, stages=(STAGE,))
        config = {**CONFIG, "max_concurrency": 1}
        return graph.invoke(None if resumed else INPUT, config, context=context, durability="sync")


def test_stopped_at_any_answer_or_evaluation_and_resumed_nothing_is_paid_twice(tmp_path):
    undisturbed = Failing()
    whole = paid_run(tmp_path / "whole", undisturbed)
    assert [a.candidate.mode for a in whole["attempts"]] == ["seed", "seed", "repair", "optimize", "optimize"]
    assert len(undisturbed.paid) == len(set(undisturbed.paid)) == 13
    for at in range(1, len(undisturbed.paid) + 1):
        path, before, after = tmp_path / str(at), Failing(at), Failing()
        with pytest.raises(Crash):
            paid_run(path, before)
        state = paid_run(path, after, resumed=True)
        assert sorted(map(str, [*before.paid, *after.paid])) == sorted(map(str, undisturbed.paid)), at
        assert told(state) == told(whole) and state["usage"] == whole["usage"], at

"""The laboratory's runs on one server: what of them is complained of. The server itself is in test_many_runs.py."""

import json

import pytest

from egg_graph import Context, build_egg_graph, to_json
from egg_graph.schema import KernelTask
from tests.graph.scripted import REFERENCE, ScriptedEvaluator, StatelessTeam, kernel
from tests.lab.server_runs import Call, End, complaints, cut_off, waiting

NAMES = ("one", "two")
SOURCES = dict.fromkeys(NAMES, REFERENCE)


@pytest.fixture(scope="module")
def states():
    team = StatelessTeam([kernel("bad", 1), kernel("ok", 9)])
    graph = build_egg_graph(team=team, evaluator=ScriptedEvaluator(), principles=())
    context = Context(target="h100", max_attempts=2, stages=("algorithmic_structure",), tune=False)
    return {name: to_json(graph.invoke({"reference": REFERENCE, "name": name}, context=context)) for name in NAMES}


@pytest.fixture
def ends(states):
    """The end of both runs, to be spoilt."""
    fresh = json.loads(json.dumps(states))
    return {
        name: End(values=fresh[name], history=[[], fresh[name]["attempts"][:1], fresh[name]["attempts"]], seconds=1.0)
        for name in NAMES
    }


@pytest.fixture
def calls(states):
    """The log of their evaluators, each call with its begin and its end."""
    asked = []
    for name, values in states.items():
        told = {"task": KernelTask.model_validate(values["task"]).digest, "name": name}
        asked += [{**told, "kind": "baseline", "candidate": ""}]
        judged = [attempt["evaluation"]["candidate"] for attempt in values["attempts"]]
        asked += [{**told, "kind": "attempt", "candidate": one} for one in judged]
    return [Call(event=event, **call) for call in asked for event in ("begin", "end")]


def test_whole_runs_are_not_complained_of(ends, calls):
    assert list(complaints(SOURCES, ends, calls)) == []


def test_what_is_lost_foreign_or_paid_twice_is_complained_of(ends, calls):
    one, two = (ends[name].values for name in NAMES)
    one["evaluation"] = two["evaluation"]
    two["attempts"].pop()
    ends["two"].history.append([])
    told = "\n".join(complaints(SOURCES, ends, [*calls, calls[2]], left=3))
    assert "3 processes of the killed server" in told and "1 answers of the evaluators were paid twice" in told
    assert "one: it holds an evaluation of another task" in told
    assert "two: the candidates judged" in told and "two: a state of its history has 0 attempts" in told


def test_a_run_that_did_not_end_or_holds_another_reference_is_complained_of(ends, calls):
    ends["one"].values["verdict"] = ""
    ends["two"].values["task"]["reference"] += "\n"
    told = "\n".join(complaints(SOURCES, ends, calls))
    assert "one: it did not end" in told
    assert "two: its task holds another reference" in told and "two: its evaluators were asked about another" in told


def test_a_call_without_an_end_was_cut_off(calls):
    failed = calls[-1].model_copy(update={"event": "failed"})
    assert list(cut_off([*calls[:-2], calls[-2]])) == [calls[-1].asked]
    assert not cut_off([*calls[:-1], failed])


def test_a_run_waits_while_its_call_is_at_work_or_held_back(calls):
    one, two = (next(call for call in calls if call.name == name) for name in NAMES)
    held = two.model_copy(update={"event": "held"})
    assert waiting(calls) == set()
    assert waiting([*calls, one]) == {"one"}
    assert waiting([*calls, one, held]) == {"one", "two"}

"""The caller's own checkpointer: sync and async, strict deserialization, one thread used twice."""

import asyncio
import dataclasses
import itertools
import json
import logging
import sqlite3
from types import SimpleNamespace

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, StateGraph

from egg_graph import Context, InputState, OutputState, build_egg_graph, egg_graph_builder
from egg_graph.schema import Attempt, Baseline, Candidate, Evaluation, KernelTask, Profile, StageSummary, Usage
from tests.graph.scripted import REFERENCE, ScriptedEvaluator, ScriptedTeam, kernel, tunable

CONTEXT = Context(target="h100", max_optimizations=1)
CONFIG = {"configurable": {"thread_id": "one"}}
SCRIPT = [kernel("bad", 1), tunable("timed", 9, "tensor_tiling", [9, 7]), "", kernel("timed", 8)]


def graph(saver, script=SCRIPT):
    return build_egg_graph(team=ScriptedTeam(script), evaluator=ScriptedEvaluator(), principles=(), checkpointer=saver)


@pytest.fixture
def saver(tmp_path):
    connection = sqlite3.connect(tmp_path / "checkpoints.sqlite", check_same_thread=False)
    yield SqliteSaver(connection)
    connection.close()


def test_the_loaded_state_equals_the_saved_one(saver, caplog):
    with caplog.at_level(logging.WARNING):
        saved = graph(saver).invoke({"reference": REFERENCE}, CONFIG, context=CONTEXT)
        loaded = graph(saver).get_state(CONFIG).values
    assert {key: loaded[key] for key in saved} == saved
    kinds = {
        "task": KernelTask,
        "baseline": Baseline,
        "best": Candidate,
        "evaluation": Evaluation,
        "profile": Profile,
        "usage": Usage,
    }
    assert {key: type(loaded[key]) for key in kinds} == kinds
    assert {type(a) for a in loaded["attempts"]} == {Attempt}
    assert {type(s) for s in loaded["summaries"]} == {StageSummary}
    assert isinstance(loaded["attempts"][0].evaluation.checks, tuple)
    assert not [r for r in caplog.records if "unregistered" in r.message or "blocked" in r.message.lower()]


def test_every_checkpoint_of_the_history_loads(saver):
    graph(saver).invoke({"reference": REFERENCE}, CONFIG, context=CONTEXT)
    history = [snapshot.next for snapshot in graph(saver).get_state_history(CONFIG)][::-1]
    first = "algorithmic_structure"
    assert history[:8] == [
        ("__start__",),
        ("prepare",),
        ("baseline",),
        (f"{first}.open",),
        (f"{first}.coder",),
        (f"{first}.evaluator",),
        (f"{first}.debugger",),
        (f"{first}.coder",),
    ]
    assert history[-3:] == [("memory_optimization.close",), ("conclude",), ()]


def test_a_thread_used_again_begins_anew(saver):
    first = graph(saver).invoke({"reference": REFERENCE}, CONFIG, context=CONTEXT)
    again = graph(saver, [kernel("ok", 3)]).invoke({"reference": REFERENCE}, CONFIG, context=CONTEXT)
    assert len(first["attempts"]) > 2
    assert [a.number for a in again["attempts"]] == list(range(1, len(again["attempts"]) + 1))
    assert again["kernel"] == kernel("ok", 3) and again["usage"].calls < first["usage"].calls + again["usage"].calls
    assert all(a.candidate.source == kernel("ok", 3) for a in again["attempts"])


def test_a_thread_used_again_counts_its_seconds_anew(saver, monkeypatch):
    """A clock that moves 1 s a look: each run takes the same time, and `max_seconds` holds for each alone."""
    clock = itertools.count()
    ticking = SimpleNamespace(monotonic=lambda: float(next(clock)))
    monkeypatch.setattr("egg_graph.nodes.seconds.time", ticking)
    whole = graph(InMemorySaver()).invoke({"reference": REFERENCE}, CONFIG, context=CONTEXT)
    budget = dataclasses.replace(CONTEXT, max_seconds=whole["seconds"])
    for _ in range(3):
        again = graph(saver).invoke({"reference": REFERENCE}, CONFIG, context=budget)
        assert again["seconds"] == whole["seconds"] and len(again["attempts"]) == len(whole["attempts"])


def test_stopped_before_a_node_and_continued(saver):
    whole = graph(InMemorySaver()).invoke({"reference": REFERENCE}, CONFIG, context=CONTEXT)
    egg = graph(saver)
    egg.invoke({"reference": REFERENCE}, CONFIG, context=CONTEXT, interrupt_before=["parallel_mapping"])
    assert egg.get_state(CONFIG).next == ("parallel_mapping.open",)
    rest = egg.invoke(None, CONFIG, context=CONTEXT)
    assert {k: v for k, v in rest.items() if k != "seconds"} == {k: v for k, v in whole.items() if k != "seconds"}


NODES = ("baseline", "algorithmic_structure", "evaluator", "conclude")


@pytest.mark.parametrize("node", NODES)
@pytest.mark.parametrize("nothing", [None, {}], ids=["no context", "as a server sends none"])
def test_a_resume_keeps_the_knobs_of_its_run(saver, node, nothing):
    few = dataclasses.replace(CONTEXT, max_attempts=2, target="a100")
    graph(saver).invoke({"reference": REFERENCE}, CONFIG, context=few, interrupt_before=[node])
    state = graph(saver).invoke(None, CONFIG, context=nothing)
    assert (state["task"].target.key, len(state["attempts"])) == ("a100", 2)
    assert "max_attempts (2) reached" in state["verdict"]
    assert state["knobs"]["max_attempts"] == 2 and json.dumps(state["knobs"])


def test_another_context_steers_a_resume(saver):
    few = dataclasses.replace(CONTEXT, max_attempts=2)
    graph(saver).invoke({"reference": REFERENCE}, CONFIG, context=few, interrupt_before=["parallel_mapping"])
    state = graph(saver).invoke(None, CONFIG, context=dataclasses.replace(few, max_attempts=4))
    assert len(state["attempts"]) == 4


def test_a_new_run_on_a_thread_has_knobs_of_its_own(saver):
    few = dataclasses.replace(CONTEXT, max_attempts=2)
    graph(saver).invoke({"reference": REFERENCE}, CONFIG, context=few)
    assert len(graph(saver).invoke({"reference": REFERENCE}, CONFIG)["attempts"]) > 2


def test_inside_a_parent_a_resume_keeps_the_knobs_of_its_run(saver):
    inner = egg_graph_builder(team=ScriptedTeam(SCRIPT), evaluator=ScriptedEvaluator(), principles=())

    def parent():
        builder = StateGraph(InputState, output_schema=OutputState)
        builder.add_node("egg", inner.compile(interrupt_before=["parallel_mapping"]))
        builder.add_edge(START, "egg")
        return builder.compile(checkpointer=saver)

    few = SimpleNamespace(egg=dataclasses.replace(CONTEXT, max_attempts=2))
    parent().invoke({"reference": REFERENCE}, CONFIG, context=few)
    assert parent().get_state(CONFIG).next == ("egg",)
    state = parent().invoke(None, CONFIG)
    assert state["verdict"] and len(state["attempts"]) == 2


def test_async_checkpointer(tmp_path):
    async def work():
        async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "async.sqlite")) as saver:
            saved = await graph(saver).ainvoke({"reference": REFERENCE}, CONFIG, context=CONTEXT)
            return saved, (await graph(saver).aget_state(CONFIG)).values

    saved, loaded = asyncio.run(work())
    assert {key: loaded[key] for key in saved} == saved

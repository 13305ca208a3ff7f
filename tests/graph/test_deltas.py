"""Checkpoints keep each attempt once; whoever reads, forks, edits or resumes a run finds all the same."""

import asyncio
import sqlite3

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Overwrite

from egg_graph import Context, OutputState, build_egg_graph
from egg_graph.schema import Attempt
from egg_graph.state import merge_attempts, merge_summaries
from tests.graph.scripted import REFERENCE, ScriptedEvaluator, StatelessTeam, kernel

INPUT = {"reference": REFERENCE}
CONFIG = {"configurable": {"thread_id": "one"}}
CONTEXT = Context(target="h100", max_optimizations=2)
SCRIPT = [kernel("bad", 1), *(kernel("ok", 30 - n) for n in range(20))]


def graph(saver=None):
    parts = {"team": StatelessTeam(SCRIPT), "evaluator": ScriptedEvaluator(), "principles": ()}
    return build_egg_graph(**parts, checkpointer=saver)


@pytest.fixture
def connection(tmp_path):
    connection = sqlite3.connect(tmp_path / "checkpoints.sqlite", check_same_thread=False)
    yield connection
    connection.close()


@pytest.fixture(params=["memory", "sqlite"])
def saver(request, connection):
    return InMemorySaver() if request.param == "memory" else SqliteSaver(connection)


@pytest.fixture(scope="module")
def whole():
    """The end of a run that nobody disturbed."""
    return graph().invoke(INPUT, context=CONTEXT)


def told(state):
    """What a run establishes, without the time that it took."""
    return {key: state[key] for key in OutputState.__annotations__ if key not in ("seconds", "usage")}


def numbers(state):
    return [attempt.number for attempt in state.get("attempts", [])]


def test_a_step_that_adds_no_attempt_stores_none(connection):
    """Most checkpoints hold no attempt at all; on the way there was one more write of an attempt with each attempt."""
    saver = SqliteSaver(connection)
    state = graph(saver).invoke(INPUT, CONFIG, context=CONTEXT)
    rows = connection.execute("SELECT type, checkpoint FROM checkpoints").fetchall()
    holding = [row for row in rows if saver.serde.loads_typed(row)["channel_values"].get("attempts")]
    assert len(state["attempts"]) > 6 and len(rows) > 30
    assert len(holding) < 6


def test_the_history_shows_the_attempts_of_each_step(saver, whole):
    ended = graph(saver).invoke(INPUT, CONFIG, context=CONTEXT)
    assert told(ended) == told(whole)
    history = list(graph(saver).get_state_history(CONFIG))[::-1]
    counts = [len(step.values.get("attempts", [])) for step in history]
    assert counts == sorted(counts) and counts[0] == 0 and counts[-1] == len(whole["attempts"])
    for step in history:
        assert step.values.get("attempts", []) == whole["attempts"][: len(step.values.get("attempts", []))]


def middle(egg):
    """The state in the middle of a finished run."""
    history = egg.get_state_history(CONFIG)
    return next(step for step in history if step.next and 0 < len(step.values["attempts"]) < 6)


def test_a_fork_goes_on_with_the_attempts_of_its_step(saver, whole):
    graph(saver).invoke(INPUT, CONFIG, context=CONTEXT)
    before = middle(graph(saver))
    again = graph(saver).invoke(None, before.config, context=CONTEXT)
    assert told(again) == told(whole)
    assert told(graph(saver).get_state(CONFIG).values) == told(whole)


def test_a_fork_with_an_edit_leaves_the_first_branch_as_it_was(saver, whole):
    graph(saver).invoke(INPUT, CONFIG, context=CONTEXT)
    before, ended = middle(graph(saver)), graph(saver).get_state(CONFIG)
    kept = before.values["attempts"][:1]
    edited = graph(saver).update_state(before.config, {"attempts": Overwrite(kept)})
    assert graph(saver).get_state(edited).values["attempts"] == kept
    state = graph(saver).invoke(None, edited, context=CONTEXT)
    assert numbers(state) == list(range(1, len(state["attempts"]) + 1)) and state["attempts"][0] == kept[0]
    assert graph(saver).get_state(ended.config).values["attempts"] == whole["attempts"]
    assert graph(saver).get_state(before.config).values["attempts"] == before.values["attempts"]


def test_an_edit_over_json_brings_attempts_back_as_values(saver, whole):
    graph(saver).invoke(INPUT, CONFIG, context=CONTEXT)
    before = middle(graph(saver))
    last = before.values["attempts"][-1].model_dump(mode="json")
    edited = graph(saver).update_state(before.config, {"attempts": [{**last, "improved": False}]})
    attempts = graph(saver).get_state(edited).values["attempts"]
    assert {type(attempt) for attempt in attempts} == {Attempt}
    assert numbers({"attempts": attempts}) == numbers(before.values) and not attempts[-1].improved


def test_a_checkpointer_that_does_not_know_the_types_loads_values_all_the_same(connection, whole):
    """As that of a parent graph that names none of them: a strict serializer gives dicts."""
    graph(SqliteSaver(connection)).invoke(INPUT, CONFIG, context=CONTEXT)
    stranger = JsonPlusSerializer(allowed_msgpack_modules=None)
    rows = connection.execute("SELECT type, value FROM writes WHERE channel = 'attempts'").fetchall()
    writes = [stranger.loads_typed(row) for row in rows]
    lists = [write for write in writes if isinstance(write, list)]
    assert {type(attempt) for write in lists for attempt in write} == {dict}
    assert merge_attempts([], lists) == whole["attempts"]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_stopped_and_resumed_with_any_durability(saver, whole, durability):
    run = {"context": CONTEXT, "durability": durability}
    graph(saver).invoke(INPUT, CONFIG, interrupt_before=["conclude"], **run)
    assert graph(saver).get_state(CONFIG).values["attempts"] == whole["attempts"]
    assert told(graph(saver).invoke(None, CONFIG, **run)) == told(whole)
    assert told(graph(saver).get_state(CONFIG).values) == told(whole)


def test_in_an_event_loop(whole):
    async def work():
        saver = InMemorySaver()
        await graph(saver).ainvoke(INPUT, CONFIG, context=CONTEXT, interrupt_before=["conclude"])
        ended = await graph(saver).ainvoke(None, CONFIG, context=CONTEXT)
        return ended, [step.values async for step in graph(saver).aget_state_history(CONFIG)]

    ended, history = asyncio.run(work())
    assert told(ended) == told(whole) and told(history[0]) == told(whole)


def test_merging_at_once_and_bit_by_bit_is_one(whole):
    """LangGraph replays writes in batches of any size."""
    attempts, summaries = whole["attempts"], whole["summaries"]
    assert merge_attempts([], [attempts[:3], attempts[:5], attempts[2:]]) == attempts
    assert merge_attempts(merge_attempts(attempts[:3], [attempts[:5]]), [attempts[2:]]) == attempts
    assert merge_summaries([], [summaries[:2], summaries[1:]]) == summaries
    assert merge_summaries(merge_summaries([], [summaries[:2]]), [summaries[1:]]) == summaries

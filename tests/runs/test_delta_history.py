"""A state of a run's folder is put together as LangGraph does it, from fewer checkpoints."""

import asyncio

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Overwrite

from egg_graph import Context, build_egg_graph
from egg_graph.runs.checkpoints import make_checkpoints, open_checkpoints
from tests.graph.scripted import REFERENCE, ScriptedEvaluator, StatelessTeam, kernel

CONFIG = {"configurable": {"thread_id": "one"}}
CONTEXT = Context(target="h100", max_optimizations=2)
SCRIPT = [kernel("bad", 1), *(kernel("ok", 30 - n) for n in range(20))]
DELTAS = ["attempts", "summaries", "sweeps", "lessons", "evaluation", "drafts"]


@pytest.fixture(scope="module")
def saver(tmp_path_factory):
    """A run to its end, then forked from its middle with an edit, to the end again."""
    folder = tmp_path_factory.mktemp("run")
    make_checkpoints(folder)
    with open_checkpoints(folder) as saver:
        parts = {"team": StatelessTeam(SCRIPT), "evaluator": ScriptedEvaluator(), "principles": ()}
        egg = build_egg_graph(**parts, checkpointer=saver)
        egg.invoke({"reference": REFERENCE}, CONFIG, context=CONTEXT, durability="sync")
        middle = next(s for s in egg.get_state_history(CONFIG) if s.next and 1 < len(s.values["attempts"]) < 6)
        fork = egg.update_state(middle.config, {"attempts": Overwrite(middle.values["attempts"][:1])})
        egg.invoke(None, fork, context=CONTEXT, durability="sync")
        yield saver


def test_every_state_of_a_forked_run_is_made_of_what_langgraph_finds(saver):
    configs = [found.config for found in saver.list(CONFIG)]
    assert len(configs) > 60
    for config in configs:
        found = saver.get_delta_channel_history(config=config, channels=DELTAS)
        assert found == SqliteSaver.get_delta_channel_history(saver, config=config, channels=DELTAS)
    assert asyncio.run(saver.aget_delta_channel_history(config=configs[-1], channels=DELTAS)) == found


def test_few_checkpoints_are_unpacked(saver, monkeypatch):
    newest = saver.get_tuple(CONFIG).config
    unpacked = []
    load = saver.serde.loads_typed

    def count(data):
        value = load(data)
        unpacked.append(isinstance(value, dict) and "channel_values" in value)
        return value

    monkeypatch.setattr(saver.serde, "loads_typed", count)
    saver.get_delta_channel_history(config=newest, channels=DELTAS)
    assert sum(unpacked) <= len(DELTAS)

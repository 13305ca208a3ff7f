"""50 runs at once on one `langgraph dev` with one GPU: killed in the middle, started again, and every run whole."""

import json

import pytest
from langgraph_sdk import get_sync_client

from egg_graph import Context, build_egg_graph
from tests.graph.scripted import REFERENCE, ScriptedEvaluator
from tests.lab.dev_server import free_port, serving, wait_until
from tests.sample import thorough
from tests.studio.many import LOG, SAVED, SCRIPT, NamedTeam

RUNS = 50
KNOBS = {"target": "h100", "max_attempts": 3, "stages": ["algorithmic_structure"], "tune": False}
GRAPH = """
from pathlib import Path

from tests.studio.many import make_graph

graph = make_graph(Path(__file__).parent)
"""

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "many.py").write_text(GRAPH)
    (tmp_path / "langgraph.json").write_text(json.dumps({"dependencies": ["."], "graphs": {"egg": "./many.py:graph"}}))
    return tmp_path


def plain(values):
    """What a run establishes but the time it took, as JSON."""
    told = {key: values[key] for key in ("status", "verdict", "kernel", "best", "evaluation", "attempts", "summaries")}
    return json.loads(json.dumps(told, default=lambda value: value.model_dump(mode="json")))


def alone(names):
    """The ends of the same runs, by their names, one after the other in this process."""
    graph = build_egg_graph(team=NamedTeam(SCRIPT), evaluator=ScriptedEvaluator(), principles=())
    run = {name: {"reference": REFERENCE, "name": name} for name in names}
    return {name: plain(graph.invoke(given, context=Context(**KNOBS))) for name, given in run.items()}


@thorough
def test_50_runs_at_once_with_one_gpu_outlive_a_kill_of_their_server(folder):
    port = free_port()
    client = get_sync_client(url=f"http://127.0.0.1:{port}")
    threads = dict.fromkeys((f"run-{number}" for number in range(RUNS)), "")
    with serving(folder, port, RUNS) as server:
        for name in threads:
            threads[name] = client.threads.create()["thread_id"]
            client.runs.create(threads[name], "egg", input={"reference": REFERENCE, "name": name}, context=KNOBS)
        wait_until((folder / SAVED).exists, server, folder)
    before = (folder / LOG).read_text().splitlines()
    with serving(folder, port, RUNS) as server:
        wait_until(lambda: not client.threads.search(status="busy", limit=1), server, folder)
        states = {name: client.threads.get_state(thread) for name, thread in threads.items()}
    after = (folder / LOG).read_text().splitlines()[len(before) :]

    assert {name: plain(state["values"]) for name, state in states.items()} == alone(threads)
    before.pop()  # the call that was cut off
    for lines in (before, after):
        assert [line.removeprefix("begin ") for line in lines[::2]] == ended(lines), "one call at a time"
    for name in threads:
        first, second = calls_of(name, before), calls_of(name, after)
        assert len({*first, *second}) == len(SCRIPT) + 2, "the attempts, and beside them the baseline and the finalist"
        assert set(first[:-1]).isdisjoint(second), "only the call whose answer was not saved yet is made again"


def ended(lines):
    """The calls of the evaluator that came to their end, in order."""
    return [line.removeprefix("end ") for line in lines[1::2]]


def calls_of(name, lines):
    return [call for call in ended(lines) if call.startswith(f"{name} ")]

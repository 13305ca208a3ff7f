"""Runs with a memory, played by a model behind a real HTTP server: their replays, and the machine's file."""

import pytest
from langgraph.store.memory import InMemoryStore
from typer.testing import CliRunner

import egg_graph
import egg_graph.report
from egg_graph.agents import requests
from egg_graph.calls import run as call
from egg_graph.cli import app
from egg_graph.memory import LessonStore
from egg_graph.memory.on_disk import open_memory
from egg_graph.model_requests import read_requests
from egg_graph.runs.recorded_memory import recorded_memory
from egg_graph.runs.replay import replay_run
from egg_graph.schema import BadInput
from tests.agents.answers import fenced
from tests.agents.openai_server import OpenAIServer, completion
from tests.agents.test_model_graph import WORTH, by_role, module
from tests.graph.scripted import REFERENCE
from tests.memory.measured import GpuEvaluator, lessons_in

KERNELS = [completion(fenced(module(f"timed {3 - n}"))) for n in range(3)]
KNOBS = {"target": "h200", "expert_seed": False, "max_optimizations": 1, "near_floor": 0, "principles": ()}


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(requests, "FIRST_WAIT", 0.01)
    monkeypatch.setattr(egg_graph.report, "render", lambda run: "")  # its plots would take most of the time
    monkeypatch.setenv("EGG_GRAPH_MEMORY", str(tmp_path / "memory.sqlite"))
    monkeypatch.setenv("COLUMNS", "300")


def optimize(name="a", model="openai:scripted", evaluator=None, **options):
    stages = ("algorithmic_structure",)
    evaluator = evaluator or GpuEvaluator()
    return egg_graph.optimize(
        f"{REFERENCE}# {name}\n", name=name, model=model, evaluator=evaluator, stages=stages, **KNOBS, **options
    )


def test_a_replay_is_told_what_its_run_was_told_whatever_the_machine_remembers(monkeypatch):
    store = InMemoryStore()
    with OpenAIServer(by_role(list(KERNELS), analyst=WORTH)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        first = optimize(store=store)
    known = lessons_in(store).lessons
    assert first.status == "faster" and len(known) == 1
    with OpenAIServer(by_role(list(KERNELS), analyst=WORTH)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        second = optimize("b", store=store)
    assert any("## Measured before" in one.prompt[1].text for one in read_requests(second.folder))
    monkeypatch.delenv("OPENAI_BASE_URL")

    call(LessonStore(store, "h200").retract({lesson.key: "measured again" for lesson in known}))
    assert replay_run(second.folder).differs == ()
    coders = {"analyst": "handoff", "coder": ["handoff", f" replay:{second.folder}"], "debugger": "handoff"}
    assert lessons_in(recorded_memory(coders)).lessons == known
    with open_memory() as mine:  # another machine's
        call(LessonStore(mine, "h200").keep([lesson.model_copy(update={"kernel": "other"}) for lesson in known]))
        again = optimize("b", model=f"replay:{second.folder}", store=mine)
        assert again.kernel == second.kernel and len(lessons_in(mine).lessons) == 1


def test_the_command_learns_into_the_file_and_shows_and_forgets_what_is_there(monkeypatch, tmp_path):
    runner = CliRunner()
    assert "nothing is remembered in" in runner.invoke(app, ["memory", "list"]).output
    assert not (tmp_path / "memory.sqlite").exists()
    with OpenAIServer(by_role(list(KERNELS), analyst=WORTH)) as server, open_memory() as store:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        run = optimize(store=store)
        (lesson,) = lessons_in(store).lessons
        call(LessonStore(store, "h200").retract({lesson.key: "measured again: 3 ms"}))
    resumed = runner.invoke(app, ["optimize", "--resume", run.id, "--max-calls", "99"])
    assert resumed.exit_code == 0 and "faster" in resumed.output, "a run that has ended is read again"
    listed = runner.invoke(app, ["memory", "list"]).output
    assert lesson.key[:8] in listed and "-33.3 %" in listed and "RETRACTED: measured again" in listed
    assert '"retracted": "measured again: 3 ms"' in runner.invoke(app, ["memory", "list", "--json"]).output
    shown = runner.invoke(app, ["memory", "show", lesson.key[:6]]).output
    assert lesson.plan in shown and lesson.evaluator in shown
    refused = runner.invoke(app, ["memory", "forget"])
    assert refused.exit_code == 2 and "give --all" in refused.stderr
    assert runner.invoke(app, ["memory", "forget", "zz"]).exit_code == 2
    assert "1 lesson forgotten" in runner.invoke(app, ["memory", "forget", lesson.key[:6]]).output
    with open_memory() as store:
        assert lessons_in(store) == ((), {}, ())


def test_no_memory_leaves_the_file_alone_and_a_store_beside_it_is_refused(monkeypatch, tmp_path):
    given = []

    def seen(*args, **options):
        given.append(options)
        raise BadInput("enough")

    monkeypatch.setattr(egg_graph, "optimize", seen)
    (tmp_path / "relu.py").write_text(REFERENCE)
    CliRunner().invoke(app, ["optimize", "relu.py", "--no-memory"])
    assert given[0]["memory"] is False and "store" not in given[0] and not (tmp_path / "memory.sqlite").exists()
    CliRunner().invoke(app, ["optimize", "relu.py"])
    assert "store" in given[1] and (tmp_path / "memory.sqlite").exists()
    monkeypatch.setenv("EGG_GRAPH_MEMORY", str(tmp_path / "relu.py" / "below"))
    told = CliRunner().invoke(app, ["optimize", "relu.py"])
    assert "without memory: the memory" in told.stderr and "store" not in given[2]
    monkeypatch.undo()
    with pytest.raises(BadInput, match="a store is given, and memory is off"):
        optimize(model=None, store=InMemoryStore(), memory=False)

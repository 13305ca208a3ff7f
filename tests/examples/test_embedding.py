"""The ways of embedding, with parts that follow a script; and each file run as a user runs it."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from langchain_core.messages import HumanMessage

from egg_graph import Context, build_chat_graph, build_egg_graph, egg_tool, evaluate_tool
from egg_graph.knowledge import load_hardware, load_principles
from tests.graph.scripted import REFERENCE, ScriptedEvaluator, ScriptedTeam, kernel
from tests.paths import EXAMPLES


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def egg(*writes):
    return build_egg_graph(team=ScriptedTeam(writes, worth=(False,)), evaluator=ScriptedEvaluator())


@pytest.mark.parametrize(("word", "shipped"), [("timed", True), ("slow", False), ("bad", False)])
def test_shared_state_ships_what_may_replace_the_reference(tmp_path, word, shipped):
    example = load("embed_shared_state")
    graph = example.build(egg(kernel(word, 2.0)))
    context = example.ReleaseContext(folder=tmp_path, egg=Context(max_attempts=3))
    state = graph.invoke({"reference": REFERENCE}, {"configurable": {"thread_id": "1"}}, context=context)
    assert (tmp_path / "accepted_kernel.py").exists() == shipped
    assert state["verdict"]
    if shipped:
        assert Path(state["shipped"]).read_text() == state["kernel"]


def test_the_parents_context_steers_the_run(tmp_path):
    example = load("embed_shared_state")
    team = ScriptedTeam([kernel("bad")])
    graph = example.build(build_egg_graph(team=team, evaluator=ScriptedEvaluator()))
    context = example.ReleaseContext(folder=tmp_path, egg=Context(max_attempts=2))
    graph.invoke({"reference": REFERENCE}, {"configurable": {"thread_id": "1"}}, context=context)
    assert team.calls().count("coder") == 2


def test_foreign_state_takes_the_hottest_first():
    example = load("embed_foreign_state")
    result = example.build(egg(kernel("timed", 2.0))).invoke(
        {"hot_spots": {"a": 0.1, "b": 0.6}, "sources": {"a": REFERENCE, "b": REFERENCE}, "report": []}
    )
    assert [line.split()[0] for line in result["report"]] == ["b", "a"]
    assert result["hot_spots"] == {}


def tools(tmp_path, *writes):
    team, evaluator = ScriptedTeam(writes, worth=(False,)), ScriptedEvaluator()
    return [egg_tool(team=team, evaluator=evaluator, runs_dir=tmp_path), evaluate_tool(evaluator, runs_dir=tmp_path)]


def test_tool_answers_with_verdict_and_kernel(monkeypatch, tmp_path):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    graph = load("embed_as_tool").build(tools(tmp_path, kernel("timed", 2.0)))
    messages = graph.invoke({"messages": [HumanMessage(REFERENCE)]})["messages"]
    assert "Accepted as faster" in messages[2].text and "# timed 2.0" in messages[2].text
    assert messages[-1].text.startswith("Done. Accepted as faster")


def test_tool_tells_the_agent_of_its_own_mistake(monkeypatch, tmp_path):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    graph = load("embed_as_tool").build(tools(tmp_path, kernel("timed")))
    messages = graph.invoke({"messages": [HumanMessage("def (")]})["messages"]
    assert messages[2].text.startswith("the reference 'reference' is no Python")


@pytest.mark.parametrize(
    ("build", "package"), [("build_supervisor", "langgraph_supervisor"), ("build_deep_agent", "deepagents")]
)
def test_an_agent_among_agents_passes_the_verdict_on(monkeypatch, build, package):
    pytest.importorskip(package, reason=f"{package} is not installed: pip install 'egg-graph[dev]'")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    team = ScriptedTeam([kernel("timed", 2.0)], worth=(False,))
    agent = getattr(load("embed_as_agent"), build)(build_chat_graph(team=team, evaluator=ScriptedEvaluator()))
    messages = agent.invoke({"messages": [HumanMessage(REFERENCE)]})["messages"]
    assert team.calls().count("coder") == 1
    assert any("# timed 2.0" in message.text for message in messages)
    assert messages[-1].text.startswith("Done. Accepted as faster")


RUN_ALL = """
import runpy, sys
for path in sys.argv[1:]:
    sys.argv = [path]
    runpy.run_path(path, run_name="__main__")
    print("end of", path)
"""


@pytest.mark.slow
def test_each_file_runs_with_no_key_and_no_gpu(tmp_path, monkeypatch):
    """One after the other in one process, which starts the evaluator once."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    files = [str(EXAMPLES / f"{name}.py") for name in ("embed_shared_state", "embed_foreign_state", "embed_as_tool")]
    command = [sys.executable, "-c", RUN_ALL, *files]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False)
    assert result.returncode == 0, result.stderr[-3000:]
    rest = result.stdout
    for file in files:
        said, _, rest = rest.partition(f"end of {file}")
        assert "Accepted as" in said


def test_own_principles_join_and_own_hardware_is_found():
    folder = EXAMPLES / "own_principles"
    mine = {p.id for p in load_principles(folder)} - {p.id for p in load_principles()}
    assert mine == {"house_keep_logits_in_l2", "house_odd_vocabulary"}
    assert load_hardware("h200_nvl", folder).figure("power") == 600

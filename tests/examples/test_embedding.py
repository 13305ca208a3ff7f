"""The ways of embedding and the parts of one's own, on scripts; and files run as a user runs them."""

import functools
import importlib.util
import io
import subprocess
import sys
from pathlib import Path

import pytest
from langchain_core.messages import HumanMessage

from egg_graph import Context, Evaluator, Team, build_egg_graph
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


def test_tool_answers_with_verdict_and_kernel(monkeypatch):
    monkeypatch.delenv("EGG_MODEL", raising=False)
    graph = load("embed_as_tool").build(egg(kernel("timed", 2.0)))
    messages = graph.invoke({"messages": [HumanMessage(REFERENCE)]})["messages"]
    assert "Accepted as faster" in messages[2].text and "# timed 2.0" in messages[2].text
    assert messages[-1].text.startswith("Done. Accepted as faster")


def test_tool_tells_the_agent_of_its_own_mistake(monkeypatch):
    monkeypatch.delenv("EGG_MODEL", raising=False)
    messages = (
        load("embed_as_tool").build(egg(kernel("timed"))).invoke({"messages": [HumanMessage("def (")]})["messages"]
    )
    assert messages[2].text.startswith("Bad input: ")


def approval(example, answers):
    """The example with a person who answers so, and what was shown."""
    shown = []

    def person(text):
        shown.append(text)
        return answers.pop(0)

    team = ScriptedTeam([kernel("ok", 9), kernel("ok", 8)])
    graph = example.build(team=team, evaluator=ScriptedEvaluator(), principles=())
    return (
        example.review(graph, {"reference": REFERENCE}, Context(max_optimizations=1, stages=STAGE), person),
        shown,
        team,
    )


STAGE = ("algorithmic_structure",)


def test_a_person_approves_each_kernel_and_plan():
    state, shown, team = approval(load("human_approval"), ["", "", ""])
    assert [text.splitlines()[0] for text in shown] == [
        "The kernel of algorithmic_structure:",
        "The plan of algorithmic_structure:",
        "The kernel of algorithmic_structure:",
    ]
    assert state["kernel"] == kernel("ok", 8) and team.calls() == ["coder", "analyst", "coder"]


def test_a_person_edits_kernel_and_plan(tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text(kernel("ok", 5))
    state, shown, _ = approval(load("human_approval"), [str(mine), "halve the tile", ""])
    assert [a.candidate.author for a in state["attempts"]] == ["user", "scripted"]
    assert state["attempts"][1].candidate.plan == "halve the tile" and len(shown) == 3
    assert state["kernel"] == kernel("ok", 5)


def test_without_a_terminal_everything_is_approved(monkeypatch, capsys):
    example = load("human_approval")
    parts = {"team": ScriptedTeam([kernel("ok", 9)]), "evaluator": ScriptedEvaluator(), "principles": ()}
    monkeypatch.setattr(example, "build_egg_graph", functools.partial(build_egg_graph, **parts))
    monkeypatch.setattr("sys.stdin", io.StringIO())
    monkeypatch.setattr("sys.argv", ["human_approval.py"])
    example.main()
    said = capsys.readouterr().out
    assert said.count("approved") == 3 and "Accepted as correct" in said


def test_a_team_of_ones_own_answers_where_it_can_and_asks_another_where_it_cannot():
    example = load("own_team")
    other = ScriptedTeam([kernel("ok", 8)], worth=(False,))
    team = example.LibraryTeam({("aten.relu",): kernel("bad")}, other)
    assert isinstance(team, Team)
    state = example.run(team, evaluator=ScriptedEvaluator())
    assert [a.candidate.author for a in state["attempts"]] == ["house library"] * 2
    assert other.calls() == ["debugger", "coder", "analyst"]
    assert (state["status"], state["attempts"][0].candidate.plan) == ("correct", "from the library: aten.relu")


def test_an_evaluator_of_ones_own_refuses_what_the_house_forbids_and_asks_another_about_the_rest():
    example = load("own_evaluator")
    assert isinstance(example.NoAtomics(ScriptedEvaluator()), Evaluator)
    atomic = "# ok 1\n    tl.atomic_add(pointer, value)\n"
    inner, team = ScriptedEvaluator(), ScriptedTeam([atomic, kernel("ok", 8)], worth=(False,))
    state = example.run(inner, team=team)
    assert [a.evaluation.status for a in state["attempts"]] == ["invalid", "correct"]
    assert state["attempts"][0].evaluation.reason == "tl.atomic_add makes results differ from run to run (line 2)"
    repair = next(brief for role, brief in team.briefs if role == "debugger")
    assert repair.evaluation.findings[0].cure.startswith("write partial results")
    assert len(inner.evaluated) == 1 and state["kernel"] == kernel("ok", 8)


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
    monkeypatch.delenv("EGG_MODEL", raising=False)
    names = ("embed_shared_state", "embed_foreign_state", "embed_as_tool", "own_team")
    files = [str(EXAMPLES / f"{name}.py") for name in names]
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

"""egg-graph as tools of an agent: described arguments, a page as the answer, one line for what is wrong."""

import json
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from egg_graph import BadInput, ModelRefused, build_egg_graph, egg_tool, evaluate_tool
from egg_graph.runs.evidence import read_evidence
from tests.graph.scripted import REFERENCE, ScriptedEvaluator, ScriptedTeam, kernel


def parts(word="timed"):
    return {"team": ScriptedTeam([kernel(word, 2.0)], worth=(False,)), "evaluator": ScriptedEvaluator()}


def called(tool, **arguments):
    """What a model gets to read."""
    return tool.invoke({"type": "tool_call", "id": "1", "name": tool.name, "args": arguments})


def test_a_run_is_a_page_with_its_evidence_on_disk(tmp_path):
    tool = egg_tool(**parts(), runs_dir=tmp_path)
    assert all(argument["description"] for argument in tool.args.values())
    assert {"reference", "target", "max_attempts"} <= set(tool.args)
    answer = json.loads(called(tool, reference=REFERENCE, max_attempts=1).text)
    assert set(answer) == {"status", "verdict", "kernel", "ratio", "evidence"}
    assert (answer["status"], answer["ratio"], answer["kernel"]) == ("faster", 2.0, kernel("timed", 2.0))
    assert "max_attempts (1)" in answer["verdict"]
    assert read_evidence(Path(answer["evidence"]) / "evidence.json").evaluation.status == "faster"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "'reference' is missing"),
        ({"reference": REFERENCE, "max_attempts": 0}, "max_attempts must be greater"),
        ({"reference": REFERENCE, "max_atempts": 1}, "no argument 'max_atempts'"),
        ({"reference": REFERENCE, "tune": False}, "no argument 'tune'"),
        ({"reference": REFERENCE, "target": "h9"}, "hardware 'h9': unknown"),
    ],
)
def test_the_agent_reads_what_is_wrong_in_one_line(tmp_path, arguments, says):
    message = called(egg_tool(**parts(), runs_dir=tmp_path, tune=False), **arguments)
    assert message.status == "error" and says in message.text and "\n" not in message.text


def test_a_refusal_of_the_model_is_told_too(tmp_path):
    tool = egg_tool(team=ScriptedTeam([kernel("ok")]), evaluator=Broken(), runs_dir=tmp_path)
    assert called(tool, reference=REFERENCE).text == "HTTP 400: no such model"


class Broken(ScriptedEvaluator):
    def baseline(self, task):
        raise ModelRefused("HTTP 400: no such model")


def test_wrong_knobs_of_the_maker_are_refused_at_once():
    with pytest.raises(BadInput, match="no knob 'max_atempts'"):
        egg_tool(max_atempts=1)


def test_events_reach_the_stream_of_the_agents_graph(tmp_path):
    builder = StateGraph(MessagesState)
    builder.add_node("tools", ToolNode([egg_tool(**parts(), runs_dir=tmp_path)]))
    builder.add_edge(START, "tools")
    call = {"name": "optimize_module", "args": {"reference": REFERENCE}, "id": "1", "type": "tool_call"}
    events = list(builder.compile().stream({"messages": [AIMessage("", tool_calls=[call])]}, stream_mode="custom"))
    assert {"baseline", "attempt", "verdict"} <= {event["event"] for event in events}


@pytest.mark.parametrize(("word", "usable"), [("timed", True), ("bad", False)])
def test_a_kernel_is_judged_as_a_finalist_with_a_record(tmp_path, word, usable):
    evaluator = ScriptedEvaluator()
    tool = evaluate_tool(evaluator, runs_dir=tmp_path / "new", target="h100")
    assert set(tool.args) == {"reference", "kernel", "precision", "device", "triton_only", "domain"}
    answer = json.loads(called(tool, reference=REFERENCE, kernel=kernel(word, 2.0)).text)
    assert answer["usable"] == usable and len(evaluator.finalists) == 1
    assert bool(answer["findings"]) != usable
    record = read_evidence(Path(answer["evidence"]))
    assert record.evaluation.status == answer["status"] and record.settings.finalist
    assert record.task.target.key == "h100"


def test_no_kernel_is_one_line(tmp_path):
    message = called(evaluate_tool(ScriptedEvaluator(), runs_dir=tmp_path), reference=REFERENCE, kernel="")
    assert message.status == "error" and message.text.startswith("input 'kernel' is missing")


def test_as_tool_needs_no_arguments():
    tool = build_egg_graph(**parts()).as_tool()
    assert all(argument["description"] for argument in tool.args.values())
    answer = json.loads(called(tool, reference=REFERENCE).text)
    assert (answer["status"], answer["kernel"]) == ("faster", kernel("timed", 2.0))
    assert called(tool, reference="def (").text.startswith("the reference 'reference' is no Python")

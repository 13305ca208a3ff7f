"""The façade with messages, and the evaluator alone as a graph."""

import asyncio

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from egg_graph import BadInput, Context, build_chat_graph, build_judging_graph
from tests.graph.scripted import REFERENCE, ScriptedEvaluator, ScriptedTeam, kernel

FENCED = f"Make this fast, please:\n```python\n{REFERENCE}```\nThanks!"


def chat(word="timed", **options):
    team = ScriptedTeam([kernel(word, 2.0)], worth=(False,))
    return team, build_chat_graph(team=team, evaluator=ScriptedEvaluator(), **options)


@pytest.mark.parametrize("text", [FENCED, REFERENCE])
def test_a_module_is_answered_with_verdict_and_kernel(text):
    answer = chat()[1].invoke({"messages": [HumanMessage(text)]})
    assert set(answer) == {"messages"}
    assert answer["messages"][-1].name == "kernel_writer"
    assert answer["messages"][-1].text.startswith("Accepted as faster")
    assert "```python\n# timed 2.0\n```" in answer["messages"][-1].text


def test_a_path_in_the_message_is_read(tmp_path):
    path = tmp_path / "relu.py"
    path.write_text(REFERENCE)
    answer = asyncio.run(chat()[1].ainvoke({"messages": [("user", f"Optimize `{path}` for me.")]}))
    assert answer["messages"][-1].text.startswith("Accepted as faster")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Hello", "There is no module"),
        ("nowhere.py", "cannot read the reference"),
        ("```\nclass Model(\n```", "Python"),
    ],
)
def test_what_is_wrong_is_an_answer(text, says):
    assert says in chat()[1].invoke({"messages": [("user", text)]})["messages"][-1].text


def test_the_knobs_hold_and_a_conversation_goes_on():
    team, graph = chat("bad", checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    graph.invoke({"messages": [HumanMessage(FENCED)]}, config, context=Context(max_attempts=2))
    assert team.calls().count("coder") == 2
    messages = graph.invoke({"messages": [HumanMessage("And now?")]}, config)["messages"]
    assert [type(m) for m in messages] == [HumanMessage, AIMessage, HumanMessage, AIMessage]
    assert team.calls().count("coder") == 2 and messages[-1].text.startswith("There is no module")


def test_events_of_the_inner_graph_reach_the_stream():
    stream = chat()[1].stream({"messages": [HumanMessage(FENCED)]}, stream_mode="custom", subgraphs=True)
    assert {"attempt", "verdict"} <= {event["event"] for _, event in stream}


def test_the_evaluator_alone_judges_as_a_finalist():
    evaluator = ScriptedEvaluator()
    graph = build_judging_graph(evaluator, checkpointer=InMemorySaver())
    given = {"reference": REFERENCE, "kernel": kernel("bad")}
    state = graph.invoke(given, {"configurable": {"thread_id": "1"}}, context={"target": "h100"})
    assert (state["status"], state["usable"]) == ("incorrect", False)
    assert "check the mask" in state["findings"][0]
    assert state["evaluation"].status == "incorrect" and len(evaluator.finalists) == 1


def test_the_evaluator_alone_refuses_and_retries_like_the_rest():
    given = {"reference": REFERENCE, "kernel": kernel("ok")}
    with pytest.raises(BadInput, match="hardware 'h9'"):
        build_judging_graph(ScriptedEvaluator()).invoke(given, context={"target": "h9"})
    with pytest.raises(BadInput, match="'kernel' is missing"):
        build_judging_graph(ScriptedEvaluator()).invoke({"reference": REFERENCE})
    assert build_judging_graph(ScriptedEvaluator(faults=1, raises=False)).invoke(given)["usable"]

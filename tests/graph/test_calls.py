"""invoke, ainvoke, stream and astream, and what they show."""

import asyncio
import json
import math

import pytest

from egg_graph import Attempt, BadInput, Context, build_egg_graph, to_json
from egg_graph.nodes.events import Event
from tests.graph.scripted import REFERENCE, ScriptedEvaluator, ScriptedTeam, kernel

SCRIPT = [kernel("bad", 1), kernel("ok", 9), kernel("ok", 8)]
INPUT = {"reference": REFERENCE}
CONTEXT = Context(target="h100", max_optimizations=1)


def graph():
    return build_egg_graph(team=ScriptedTeam(SCRIPT), evaluator=ScriptedEvaluator(), principles=())


def timeless(state):
    """The output but for its duration."""
    return {key: value for key, value in state.items() if key not in ("seconds", "reference", "name")}


def test_all_four_calls_end_alike():
    async def stream():
        return [value async for value in graph().astream(INPUT, context=CONTEXT, stream_mode="values")][-1]

    states = [
        graph().invoke(INPUT, context=CONTEXT),
        asyncio.run(graph().ainvoke(INPUT, context=CONTEXT)),
        list(graph().stream(INPUT, context=CONTEXT, stream_mode="values"))[-1],
        asyncio.run(stream()),
    ]
    assert states[0]["status"] == "correct" and states[0]["seconds"] > 0
    keys = timeless(states[0]).keys()
    assert all({key: state[key] for key in keys} == timeless(states[0]) for state in states)


def test_updates_show_kernel_profile_and_debug_analysis():
    seen = {}
    for path, update in graph().stream(INPUT, context=CONTEXT, stream_mode="updates", subgraphs=True):
        for node, values in update.items():
            for key, value in (values or {}).items():
                seen.setdefault(key, []).append((path, node, value))
    assert [s[:2] for s in seen["diagnosis"] if s[2] is not None] == [((), "algorithmic_structure.debugger")]
    assert [v.source for _, node, v in seen["candidate"] if node.endswith(".coder")][:2] == SCRIPT[:2]
    assert seen["profile"][1][2].source == "compiled" and seen["kernel"][-1][2] == kernel("ok", 8)
    assert {"analysis", "evaluation", "attempts", "summaries", "usage", "verdict"} <= set(seen)


def test_a_diagnosis_goes_from_the_state_with_the_repair_that_worked():
    """Not only when the next analyst plans: here none does."""
    context = Context(target="h100", stages=("algorithmic_structure",), max_optimizations=0)
    states = list(graph().stream(INPUT, context=context, stream_mode="values"))
    diagnosed = [state for state in states if state.get("diagnosis") is not None]
    assert diagnosed and all(len(state["attempts"]) == 1 for state in diagnosed)
    assert len(states[-1]["attempts"]) == 2 and states[-1]["diagnosis"] is None


def test_events_are_small_json_dicts_with_documented_keys():
    events = [e for _, e in graph().stream(INPUT, context=CONTEXT, stream_mode="custom", subgraphs=True)]
    assert {e["event"] for e in events} == {"started", "ledger", "baseline", "stage", "role", "attempt", "verdict"}
    for event in events:
        assert set(event) <= set(Event.__annotations__), event
        json.dumps(event)
    assert [e["stage"] for e in events if e["event"] == "stage" and e["status"] == "opened"] == list(CONTEXT.stages)


def test_a_state_becomes_json_values_and_comes_back():
    state = graph().invoke(INPUT, context=CONTEXT)
    data = json.loads(json.dumps(to_json({**state, "own": {"limit": math.inf}}), allow_nan=False))
    assert data["own"] == {"limit": "Infinity"}
    assert [Attempt.model_validate(one) for one in data["attempts"]] == state["attempts"]
    assert data["kernel"] == state["kernel"] and data["status"] == "correct"
    with pytest.raises(BadInput, match="no JSON form"):
        to_json({"own": object()})


def test_the_context_may_be_a_dict_or_left_out():
    assert graph().invoke(INPUT, context={"target": "h100", "stages": ["tensor_tiling"]})["summaries"][0].stage == (
        "tensor_tiling"
    )
    assert graph().invoke(INPUT)["status"] == "correct"


def test_predicted_effects_are_held_against_measured_ones():
    state = graph().invoke(INPUT, context=CONTEXT)
    effect = next(a.effect for a in state["attempts"] if a.candidate.mode == "optimize")
    assert (effect.before, effect.after, effect.held) == (9.0, 8.0, True)
    again = state["attempts"][3].effect
    assert (again.before, again.after, again.held) == (8.0, 8.0, False)
    assert state["attempts"][0].effect is None

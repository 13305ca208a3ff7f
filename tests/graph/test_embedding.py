"""The graph inside other systems: as a node with shared state, behind a wrapper, as a tool."""

from dataclasses import dataclass

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from typing_extensions import TypedDict

from egg_graph import BadInput, Context, build_egg_graph
from tests.graph.scripted import REFERENCE, ScriptedEvaluator, ScriptedTeam, kernel


def egg(script=None):
    return build_egg_graph(
        team=ScriptedTeam(script or [kernel("ok", 9), kernel("ok", 8)]), evaluator=ScriptedEvaluator(), principles=()
    )


@dataclass
class Tenant:
    """A parent's own context."""

    tenant: str = "somebody"
    egg: Context | dict | None = None


class TenantKeys(TypedDict, total=False):
    """A parent's own context, as a mapping."""

    tenant: str
    egg: dict


class Shared(TypedDict, total=False):
    reference: str
    kernel: str
    status: str
    verdict: str
    shipped: str


def shared_parent(context_schema=Tenant, inner=None, **options):
    def ship(state: Shared) -> Shared:
        return {"shipped": f"{state['status']}: {state['kernel']}"}

    builder = StateGraph(Shared, context_schema=context_schema)
    builder.add_node("egg", inner or egg())
    builder.add_node("ship", ship)
    builder.add_edge(START, "egg")
    builder.add_edge("egg", "ship")
    builder.add_edge("ship", END)
    return builder.compile(**options)


def test_the_kernel_of_the_run_before_is_not_handed_in_to_the_next_one():
    team = ScriptedTeam([kernel("ok", 9)], worth=[False])
    inner = build_egg_graph(team=team, evaluator=ScriptedEvaluator(), principles=())
    parent, thread = shared_parent(inner=inner, checkpointer=InMemorySaver()), {"configurable": {"thread_id": "one"}}
    for runs in (1, 2):
        parent.invoke({"reference": REFERENCE}, thread, context=Tenant())
        assert team.calls().count("coder") == runs


def test_a_parent_hands_in_a_kernel():
    given = {"reference": REFERENCE, "kernel": kernel("ok", 3), "status": "new"}
    assert shared_parent().invoke(given, context=Tenant())["kernel"] == kernel("ok", 3)


def test_as_a_node_with_shared_keys_under_a_foreign_context():
    state = shared_parent().invoke({"reference": REFERENCE}, context=Tenant())
    assert state["shipped"] == f"correct: {kernel('ok', 8)}"


def test_the_parent_steers_it_through_its_context():
    knobs = Tenant(egg=Context(max_attempts=1, target="h100"))
    assert shared_parent().invoke({"reference": REFERENCE}, context=knobs)["kernel"] == kernel("ok", 9)


KNOBS = {"max_attempts": 1, "target": "h100"}


@pytest.mark.parametrize(
    ("schema", "context"),
    [
        (Tenant, Tenant(egg=KNOBS)),
        (Tenant, {"tenant": "a", "egg": KNOBS}),
        (TenantKeys, {"tenant": "a", "egg": KNOBS}),
        (TenantKeys, {"egg": Context(**KNOBS)}),
        (None, KNOBS),
        (Context, KNOBS),
    ],
)
def test_the_parents_knobs_hold_whatever_carries_them(schema, context):
    state = shared_parent(schema).invoke({"reference": REFERENCE}, context=context)
    assert state["kernel"] == kernel("ok", 9)


@pytest.mark.parametrize("egg", [{"max_atempts": 1}, {"max_attempts": 0}, 7, ["max_attempts"]])
def test_knobs_that_cannot_be_read_are_refused(egg):
    with pytest.raises(BadInput):
        shared_parent().invoke({"reference": REFERENCE}, context=Tenant(egg=egg))


def test_a_parents_own_mapping_leaves_the_defaults():
    state = shared_parent(TenantKeys).invoke({"reference": REFERENCE}, context={"tenant": "a"})
    assert state["kernel"] == kernel("ok", 8)


def test_its_events_reach_the_parents_stream():
    stream = shared_parent().stream({"reference": REFERENCE}, context=Tenant(), stream_mode="custom", subgraphs=True)
    assert {"attempt", "verdict"} <= {event["event"] for _, event in stream}


def test_behind_a_wrapper_with_another_schema():
    class Foreign(TypedDict, total=False):
        request: str
        answer: str

    inner = egg()

    def wrapper(state: Foreign, runtime: Runtime) -> Foreign:
        result = inner.invoke({"reference": state["request"]}, context=Context(target="h100", max_attempts=2))
        return {"answer": result["verdict"]}

    builder = StateGraph(Foreign)
    builder.add_node("wrapper", wrapper)
    builder.add_edge(START, "wrapper")
    assert builder.compile().invoke({"request": REFERENCE})["answer"].startswith("Accepted as correct")


@pytest.mark.filterwarnings("ignore::langchain_core._api.beta_decorator.LangChainBetaWarning")
def test_as_a_tool():
    tool = egg().as_tool(name="optimize_module", description="Write a Triton kernel for a PyTorch module.")
    assert set(tool.args) == {"reference", "name", "kernel", "plan"}
    assert tool.invoke({"reference": REFERENCE, "name": "relu", "kernel": "", "plan": ""})["status"] == "correct"
    refused = tool.invoke({"reference": "", "name": "relu", "kernel": "", "plan": ""})
    assert isinstance(refused, str) and "'reference' is missing or empty" in refused

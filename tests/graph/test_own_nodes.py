"""Nodes, state keys and policies of the caller's own, and what a cache and a store do."""

import operator
from typing import Annotated

import pytest
from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.runtime import Runtime
from langgraph.store.memory import InMemoryStore
from langgraph.types import CachePolicy, Command, RetryPolicy, interrupt

from egg_graph import BadInput, Context, InfrastructureError, Insert, State, build_egg_graph, checkpoint_serde
from egg_graph.evaluator import LocalEvaluator
from egg_graph.schema import Candidate, StageName
from tests.graph.scripted import REFERENCE, ScriptedEvaluator, ScriptedTeam, kernel

CONFIG = {"configurable": {"thread_id": "one"}}
INPUT = {"reference": REFERENCE}
STAGES: tuple[StageName, ...] = ("algorithmic_structure", "tensor_tiling")
CONTEXT = Context(target="h100", max_optimizations=1, stages=STAGES)
SCRIPT = [kernel("bad", 1), kernel("ok", 9), kernel("ok", 8)]


class Mine(State, total=False):
    """The run's state with keys of a caller's own."""

    ticket: str
    notes: Annotated[list[str], operator.add]


def build(script=SCRIPT, team=None, evaluator=None, **options):
    parts = {"team": team or ScriptedTeam(script), "evaluator": evaluator or ScriptedEvaluator(), "principles": ()}
    return build_egg_graph(**parts, **options)


def note(text):
    def node(state: Mine) -> Mine:
        return {"notes": [text]}  # type: ignore[typeddict-item]

    return node


def walk(graph, given=INPUT):
    return [node for update in graph.stream(given, context=CONTEXT) for node in update]


def test_nodes_around_a_step_run_around_it_in_every_stage():
    inserts = [
        Insert(name="brief", node=note("brief"), before="coder"),
        Insert(name="late", node=note("late"), before="coder"),
        Insert(name="review", node=note("review"), after="coder"),
    ]
    graph = build(inserts=inserts, state_schema=Mine)
    nodes = walk(graph)
    coders = [n for n, name in enumerate(nodes) if name.endswith(".coder")]
    assert len(coders) == 4
    for n in coders:
        stage = nodes[n].partition(".")[0]
        assert nodes[n - 2 : n + 2] == [f"{stage}.{name}" for name in ("brief", "late", "coder", "review")]


@pytest.mark.parametrize(
    ("place", "between"),
    [
        ({"after": "algorithmic_structure"}, ("algorithmic_structure.close", "gate", "parallel_mapping.open")),
        ({"before": "tensor_tiling"}, ("parallel_mapping.open", "gate", "tensor_tiling.open")),
        ({"before": "tensor_tiling.coder"}, ("tensor_tiling.analyst", "tensor_tiling.gate", "tensor_tiling.coder")),
        ({"before": "prepare"}, (None, "gate", "prepare")),
        ({"after": "baseline"}, ("baseline", "gate", "algorithmic_structure.open")),
        ({"after": "conclude"}, ("conclude", "gate", None)),
    ],
)
def test_a_node_stands_where_it_is_put(place, between):
    nodes = [None, *walk(build(inserts=[Insert(name="gate", node=note("gate"), **place)], state_schema=Mine)), None]
    at = nodes.index(between[1])
    assert nodes.count(between[1]) == 1 and tuple(nodes[at - 1 : at + 2]) == between


def test_own_keys_come_in_and_reach_the_output_and_the_servers_schemas():
    def sign(state: Mine, runtime: Runtime[Context]) -> Mine:
        assert isinstance(state["best"], Candidate) and runtime.context.target == "h100"
        return {"notes": [f"{state['ticket']}: {state['best'].author}"]}  # type: ignore[typeddict-item]

    graph = build(inserts=[Insert(name="sign", node=sign, before="conclude")], state_schema=Mine)
    state = graph.invoke({**INPUT, "ticket": "K-7"}, context=CONTEXT)
    assert (state["ticket"], state["notes"], state["status"]) == ("K-7", ["K-7: scripted"], "correct")
    assert {"ticket", "notes"} <= graph.get_input_jsonschema()["properties"].keys()
    assert graph.get_input_jsonschema()["required"] == ["reference"]
    assert {"ticket", "notes"} <= graph.get_output_jsonschema()["properties"].keys()


def test_an_asynchronous_node():
    async def node(state: Mine) -> Mine:
        return {"notes": ["waited"]}  # type: ignore[typeddict-item]

    import asyncio

    graph = build(inserts=[Insert(name="wait", node=node, after="baseline")], state_schema=Mine)
    assert asyncio.run(graph.ainvoke(INPUT, context=CONTEXT))["notes"] == ["waited"]


def test_a_node_may_ask_a_person_and_no_model_answer_is_paid_twice():
    def approve(state: State) -> State:
        decision = interrupt({"kernel": state["candidate"].source})
        if decision == "as it is":
            return {}  # type: ignore[typeddict-item]
        return {"candidate": state["candidate"].model_copy(update={"source": decision})}  # type: ignore[typeddict-item]

    team = ScriptedTeam([kernel("ok", 9)], worth=[False])
    graph = build(
        team=team,
        inserts=[Insert(name="approve", node=approve, before="evaluator")],
        checkpointer=InMemorySaver(serde=checkpoint_serde()),
    )
    asked = graph.invoke(INPUT, CONFIG, context=CONTEXT)
    assert asked["__interrupt__"][0].value == {"kernel": kernel("ok", 9)}
    state = graph.invoke(Command(resume=kernel("ok", 4)), CONFIG)
    assert team.calls().count("coder") == 1
    assert (state["kernel"], state["best"].author) == (kernel("ok", 4), "user")


def test_a_pause_at_an_inserted_node():
    inserts = [Insert(name="gate", node=note("gate"), before="evaluator")]
    graph = build(inserts=inserts, state_schema=Mine, checkpointer=InMemorySaver(serde=checkpoint_serde()))
    graph.invoke(INPUT, CONFIG, context=CONTEXT, interrupt_before=["gate"])
    assert graph.get_state(CONFIG).next == ("algorithmic_structure.gate",)


@pytest.mark.parametrize(
    ("insert", "says"),
    [
        ({"name": "gate"}, "say where it stands"),
        ({"name": "gate", "before": "coder", "after": "coder"}, "say where it stands"),
        ({"name": "coder", "before": "evaluator"}, "give it a name of its own"),
        ({"name": "my.gate", "before": "evaluator"}, "give it a name of its own"),
        ({"name": "gate", "before": "evaluater"}, "no node 'evaluater'; name one of prepare"),
    ],
)
def test_a_node_that_stands_nowhere_is_refused(insert, says):
    with pytest.raises(BadInput, match=says):
        build(inserts=[Insert(node=note("x"), **insert)])


def test_two_nodes_of_one_name_are_refused():
    twice = [Insert(name="gate", node=note("x"), before=step) for step in ("coder", "evaluator")]
    with pytest.raises(BadInput, match=r"two nodes are named 'algorithmic_structure\.gate'"):
        build(inserts=twice, state_schema=Mine)


def test_a_state_that_does_not_derive_from_ours_is_refused():
    class Other(dict):
        pass

    with pytest.raises(BadInput, match=r"state_schema=Other lacks the key .*derive from egg_graph\.State"):
        build(state_schema=Other)


# policies


class Shaky(ScriptedTeam):
    """Fails at its first calls."""

    def __init__(self, script, failures):
        super().__init__(script, worth=(False,))
        self.failures = failures

    def write(self, brief):
        if self.failures:
            self.failures -= 1
            raise TimeoutError("late")
        return super().write(brief)


QUICK = RetryPolicy(max_attempts=6, initial_interval=0.001, backoff_factor=1.0, jitter=False, retry_on=TimeoutError)


@pytest.mark.parametrize("policy", [QUICK, {"coder": QUICK}, {"algorithmic_structure.coder": QUICK}])
def test_a_retry_policy_of_the_callers_holds(policy):
    assert build(team=Shaky(SCRIPT, 5), retry_policy=policy).invoke(INPUT, context=CONTEXT)["status"] == "correct"


def test_a_retry_policy_for_one_step_leaves_the_others_theirs(monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    with pytest.raises(TimeoutError):
        build(team=Shaky(SCRIPT, 5), retry_policy={"tensor_tiling.coder": QUICK}).invoke(INPUT, context=CONTEXT)
    with pytest.raises(BadInput, match="no node 'codr'"):
        build(retry_policy={"codr": QUICK})


def test_the_policies_of_an_inserted_node_hold():
    calls = []

    def fetch(state: Mine) -> Mine:
        calls.append(1)
        if len(calls) < 3:
            raise TimeoutError("late")
        return {"notes": ["fetched"]}  # type: ignore[typeddict-item]

    insert = Insert(
        name="fetch",
        node=fetch,
        before="prepare",
        retry_policy=QUICK,
        cache_policy=CachePolicy(key_func=lambda state: state["reference"]),
    )
    graph = build(inserts=[insert], state_schema=Mine, cache=InMemoryCache())
    for _ in range(2):
        assert graph.invoke(INPUT, context=CONTEXT)["notes"] == ["fetched"]
    assert len(calls) == 3, "two failures, one answer, and then the cache's"


# cache and store


class Told(ScriptedEvaluator):
    """An evaluator that tells what its answers depend on."""

    def __init__(self, key="one", log=None):
        super().__init__(log=log)
        self.cache_key = key
        self.baselines = 0

    def baseline(self, task):
        self.baselines += 1
        return super().baseline(task)


def test_a_cache_spares_later_runs_what_content_alone_decides():
    cache, evaluator = InMemoryCache(), Told()
    first = build(evaluator=evaluator, cache=cache).invoke(INPUT, context=CONTEXT)
    judged = list(evaluator.evaluated)
    again = build(evaluator=evaluator, cache=cache).invoke(INPUT, context=CONTEXT)
    assert again["attempts"] == first["attempts"] and again["baseline"] == first["baseline"]
    assert evaluator.evaluated == judged and evaluator.baselines == 1
    assert len(evaluator.finalists) == 2, "no kernel is handed over on a kept verdict alone"


@pytest.mark.parametrize("word", ["timed", "slow", "hang", "crash"])
def test_what_holds_a_time_or_may_change_is_judged_anew(word):
    cache, evaluator = InMemoryCache(), Told()
    for _ in range(2):
        build([kernel(word, 3), kernel("ok", 2)], evaluator=evaluator, cache=cache).invoke(INPUT, context=CONTEXT)
    first = Candidate(source=kernel(word, 3), author="", stage="tensor_tiling", mode="seed").id
    assert evaluator.evaluated.count(first) == 2


@pytest.mark.parametrize("other", [Told("two"), ScriptedEvaluator()])
def test_another_evaluator_is_asked_itself(other):
    cache = InMemoryCache()
    build(evaluator=Told(), cache=cache).invoke(INPUT, context=CONTEXT)
    build(evaluator=other, cache=cache).invoke(INPUT, context=CONTEXT)
    assert len(other.evaluated) == 3


def test_a_fault_of_the_machine_is_not_kept(monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    cache, evaluator = InMemoryCache(), Told()
    evaluator.faults, evaluator.raises = 9, False
    with pytest.raises(InfrastructureError):
        build(evaluator=evaluator, cache=cache).invoke(INPUT, context=CONTEXT)
    evaluator.faults = 0
    assert build(evaluator=evaluator, cache=cache).invoke(INPUT, context=CONTEXT)["status"] == "correct"


def test_the_evaluator_of_this_machine_tells_what_its_answers_depend_on():
    keys = {LocalEvaluator(device="none", timeout=t, seed=seed).cache_key for t in (10, 20) for seed in (1, 2)}
    assert len(keys) == 2


def test_a_store_is_there_for_own_nodes():
    def remember(state: State, runtime: Runtime[Context]) -> State:
        runtime.store.put(("kernels",), "best", {"source": state["kernel"]})
        return {}  # type: ignore[typeddict-item]

    store = InMemoryStore()
    build(inserts=[Insert(name="remember", node=remember, after="conclude")], store=store).invoke(
        INPUT, context=CONTEXT
    )
    assert store.get(("kernels",), "best").value == {"source": kernel("ok", 8)}
    assert store.list_namespaces() == [("kernels",)]

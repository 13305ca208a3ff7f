"""The whole topology on one page (arXiv 2606.26758: algorithmic structure first, then hardware-specific tuning).

START → prepare → baseline → algorithmic_structure → parallel_mapping → tensor_tiling → memory_optimization → conclude
                     └ contender ┘

The contender is the embedded expert's kernel, judged before a model is paid.
Each stage is seven steps of this one graph, named `stage.step` (stage_graph.py), so that a thread's history holds every
step of every role, and a person can pause at it, edit it and fork from it.

Each of the four stages:

open → analyst ─┬ rewrite → coder → evaluator ─┬ repair → debugger → coder
                │                              ├ optimize → analyst
                └ sweep or accept ──→ tuner ←──┴ accept
                                        └ close
"""

from collections.abc import Sequence
from typing import Any, Literal

from langgraph.cache.base import BaseCache
from langgraph.graph import END, START
from langgraph.store.base import BaseStore
from langgraph.types import Checkpointer, RetryPolicy

from egg_graph import routing
from egg_graph.context import Context
from egg_graph.evaluator.protocol import Evaluator
from egg_graph.nodes.conclude import ConcludeNode
from egg_graph.nodes.contender import ContenderNode
from egg_graph.nodes.prepare import PrepareNodes
from egg_graph.nodes.retries import EVALUATOR_RETRY
from egg_graph.nodes.services import Services
from egg_graph.schema import Principle
from egg_graph.stage_graph import add_stage, knobs_of
from egg_graph.stages import STAGES
from egg_graph.state import InputState, OutputState, State
from egg_graph.steering.compiled import EggBuilder, EggGraph, Names
from egg_graph.steering.state_schema import extend_schemas
from egg_graph.steering.topology import SEPARATOR, Insert, Policies, Topology
from egg_graph.team import Team


def egg_graph_builder(
    model: Any = None,
    *,
    team: Team | None = None,
    evaluator: Evaluator | None = None,
    principles: Sequence[Principle] | None = None,
    inserts: Sequence[Insert] = (),
    state_schema: Any = State,
    retry_policy: RetryPolicy | Policies | None = None,
    cache: BaseCache[Any] | None = None,
) -> EggBuilder[State, Context, InputState, OutputState]:
    """Build the graph without compiling it, so that nodes can be added or it can be compiled in another way.

    Args:
        model: a chat model, a name (`"openai:gpt-5"`, `"anthropic:..."`, any OpenAI-compatible endpoint through
            `OPENAI_BASE_URL`: see `egg_graph.agents.load_chat_model`), a mapping role -> model, or None for the
            embedded expert, which needs no key and no network.
        team: plays the three roles; `model` is then ignored.
        evaluator: judges the candidates; None for the evaluator of this machine.
        principles: expert rules in place of the shipped ones.
        inserts: nodes of your own, between stages and around steps.
        state_schema: a `TypedDict` that derives from `egg_graph.State` and adds keys for your own nodes. The added
            keys can be given as input, and are part of the output.
        retry_policy: when to try again a step that asks the team or the evaluator, in place of our policies: one for
            all of them, or a mapping of steps (`coder`, `tensor_tiling.evaluator`) to theirs.
        cache: keeps what is established by content alone, for later runs: see `egg_graph.nodes.answer_cache`.

    Raises:
        BadInput: if `model` can never become a team, or a node or a policy is for a step that there is not.
    """
    services = Services(model=model, team=team, evaluator=evaluator, principles=principles, cache=cache)
    given, answered = extend_schemas(state_schema)
    builder: EggBuilder[State, Context, InputState, OutputState] = EggBuilder(
        state_schema, context_schema=Context, input_schema=given, output_schema=answered
    )
    builder.inserted = len(inserts)
    topology = Topology(builder, inserts, retry_policy)

    def after_baseline(state: State) -> Literal["contender", "evaluable", "unevaluable"]:
        return routing.after_baseline(state, knobs_of(state), paid=services.paid)

    prepare = PrepareNodes(services)
    topology.node("prepare", prepare.prepare)
    topology.node("baseline", prepare.baseline, EVALUATOR_RETRY)
    topology.node("contender", ContenderNode(services).contender, EVALUATOR_RETRY)
    opens = [f"{stage.name}{SEPARATOR}open" for stage in STAGES]
    for stage, following in zip(STAGES, [*opens[1:], "conclude"], strict=True):
        add_stage(topology, stage, services, following)
    topology.node("conclude", ConcludeNode(services).conclude, EVALUATOR_RETRY)

    topology.edge(START, "prepare")
    topology.edge("prepare", "baseline")
    ends = {"contender": "contender", "evaluable": opens[0], "unevaluable": "conclude"}
    topology.branch("baseline", after_baseline, ends)
    topology.edge("contender", opens[0])
    structure, *tuning = [f"{stage.name}{SEPARATOR}close" for stage in STAGES]
    topology.branch(structure, routing.after_structure, {"kernel": opens[1], "no_kernel": "conclude"})
    for close, following in zip(tuning, [*opens[2:], "conclude"], strict=True):
        topology.edge(close, following)
    topology.edge("conclude", END)
    return builder


def build_egg_graph(
    model: Any = None,
    *,
    team: Team | None = None,
    evaluator: Evaluator | None = None,
    principles: Sequence[Principle] | None = None,
    inserts: Sequence[Insert] = (),
    state_schema: Any = State,
    retry_policy: RetryPolicy | Policies | None = None,
    interrupt_before: Names = None,
    interrupt_after: Names = None,
    checkpointer: Checkpointer = None,
    store: BaseStore | None = None,
    cache: BaseCache[Any] | None = None,
    name: str = "egg_graph",
    debug: bool = False,
) -> EggGraph[State, Context, InputState, OutputState]:
    """Build the compiled graph, which turns a PyTorch module into a proven Triton kernel.

    It works with invoke, ainvoke, stream and astream, as a node of another graph, and in LangGraph Studio.

    Args:
        model, team, evaluator, principles, inserts, state_schema, retry_policy: see `egg_graph_builder`.
        interrupt_before, interrupt_after: where every run pauses: a step of every stage (`evaluator`), a step of one
            stage (`tensor_tiling.evaluator`), a whole stage, or `prepare`, `baseline`, `contender`, `conclude`. Each
            call of the graph takes the same two arguments.
        cache: see `egg_graph_builder`; inserted nodes with a `cache_policy` use it as well.
        store: where runs recall what was measured on similar problems, and keep what they measure (`Context.memory`);
            nodes of your own find it as `runtime.store`.
        checkpointer, name, debug: passed to `StateGraph.compile`.

    Raises:
        BadInput: see `egg_graph_builder`; or if there is no node to pause at by a name that is given.
    """
    builder = egg_graph_builder(
        model,
        team=team,
        evaluator=evaluator,
        principles=principles,
        inserts=inserts,
        state_schema=state_schema,
        retry_policy=retry_policy,
        cache=cache,
    )
    return builder.compile(
        checkpointer,
        interrupt_before=interrupt_before,
        interrupt_after=interrupt_after,
        store=store,
        cache=cache,
        name=name,
        debug=debug,
    )

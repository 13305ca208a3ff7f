"""The whole topology on one page (arXiv 2606.26758: algorithmic structure first, then hardware-specific tuning).

START → prepare → baseline → algorithmic_structure → hardware_tuning ───────────→ conclude → END
                                                       ├ parallel_mapping
                                                       ├ tensor_tiling
                                                       └ memory_optimization
"""

from collections.abc import Sequence
from typing import Any

from langgraph.cache.base import BaseCache
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.base import BaseStore
from langgraph.types import Checkpointer

from egg_graph.compiled import EggGraph
from egg_graph.context import Context, recursion_limit
from egg_graph.evaluator.protocol import Evaluator
from egg_graph.nodes.conclude import ConcludeNode
from egg_graph.nodes.prepare import PrepareNodes
from egg_graph.nodes.retries import EVALUATOR_RETRY
from egg_graph.nodes.services import Services
from egg_graph.routing import after_baseline, after_structure
from egg_graph.schema import Principle
from egg_graph.stage_graph import build_stage
from egg_graph.stages import STRUCTURE_STAGES, TUNING_STAGES
from egg_graph.state import InputState, OutputState, StageState, State
from egg_graph.team import Team


def egg_graph_builder(
    model: Any = None,
    *,
    team: Team | None = None,
    evaluator: Evaluator | None = None,
    principles: Sequence[Principle] | None = None,
) -> StateGraph[State, Context, InputState, OutputState]:
    """Build the graph without compiling it, so that nodes can be added or it can be compiled in another way.

    Args:
        model: a chat model, a name (`"openai:gpt-5"`, any OpenAI-compatible endpoint through `OPENAI_BASE_URL`), a
            mapping role -> model, or None for the embedded expert, which needs no key and no network.
        team: plays the three roles; `model` is then ignored.
        evaluator: judges the candidates; None for the evaluator of this machine.
        principles: expert rules in place of the shipped ones.

    Raises:
        BadInput: if `model` can never become a team.
    """
    services = Services(model=model, team=team, evaluator=evaluator, principles=principles)
    prepare = PrepareNodes(services)
    builder = StateGraph(State, context_schema=Context, input_schema=InputState, output_schema=OutputState)

    builder.add_node("prepare", prepare.prepare)
    builder.add_node("baseline", prepare.baseline, retry_policy=EVALUATOR_RETRY)
    for stage in STRUCTURE_STAGES:
        builder.add_node(stage.name, build_stage(stage, services))
    builder.add_node("hardware_tuning", _hardware_tuning(services))
    builder.add_node("conclude", ConcludeNode(services).conclude, retry_policy=EVALUATOR_RETRY)

    builder.add_edge(START, "prepare")
    builder.add_edge("prepare", "baseline")
    builder.add_conditional_edges("baseline", after_baseline)
    builder.add_conditional_edges("algorithmic_structure", after_structure)
    builder.add_edge("hardware_tuning", "conclude")
    builder.add_edge("conclude", END)
    return builder


def _hardware_tuning(services: Services) -> CompiledStateGraph[StageState, Context, Any, Any]:
    """Build the second stage: its three parts in the paper's order."""
    builder = StateGraph(StageState, context_schema=Context)
    before = START
    for stage in TUNING_STAGES:
        builder.add_node(stage.name, build_stage(stage, services))
        builder.add_edge(before, stage.name)
        before = stage.name
    builder.add_edge(before, END)
    return builder.compile(name="hardware_tuning")


def build_egg_graph(
    model: Any = None,
    *,
    team: Team | None = None,
    evaluator: Evaluator | None = None,
    principles: Sequence[Principle] | None = None,
    checkpointer: Checkpointer = None,
    store: BaseStore | None = None,
    cache: BaseCache[Any] | None = None,
    name: str = "egg_graph",
    debug: bool = False,
) -> CompiledStateGraph[State, Context, InputState, OutputState]:
    """Build the compiled graph, which turns a PyTorch module into a proven Triton kernel.

    It works with invoke, ainvoke, stream and astream, as a node of another graph, and in LangGraph Studio.

    Args:
        model, team, evaluator, principles: see `egg_graph_builder`.
        checkpointer, store, cache, name, debug: passed to `StateGraph.compile`.

    Raises:
        BadInput: if `model` can never become a team.
    """
    builder = egg_graph_builder(model, team=team, evaluator=evaluator, principles=principles)
    graph = builder.compile(checkpointer=checkpointer, store=store, cache=cache, name=name, debug=debug)
    return EggGraph.of(graph).with_config(recursion_limit=recursion_limit())

"""The subgraph of one stage. The same builder makes all four; stages.py holds how they differ, as data."""

from typing import Any, Literal

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from egg_graph import routing
from egg_graph.context import Context, resolve
from egg_graph.nodes.judging import JudgingNodes
from egg_graph.nodes.retries import EVALUATOR_RETRY, MODEL_RETRY
from egg_graph.nodes.roles import RoleNodes
from egg_graph.nodes.services import Services
from egg_graph.stages import Stage
from egg_graph.state import StageState


def build_stage(stage: Stage, services: Services) -> CompiledStateGraph[StageState, Context, Any, Any]:
    """Build the subgraph of one stage.

    START → open → analyst ─┬ rewrite → coder → evaluator ─┬ repair → debugger → coder
                            │                              ├ optimize → analyst
                            └ sweep or accept ──→ tuner ←──┴ accept
                                                    └ close → END

    A kernel that a person put in place of the best one goes from open, or from the analyst, to the evaluator first.
    """

    def enter(state: StageState, runtime: Runtime[Context]) -> Literal["enter", "skip"]:
        return routing.enter(state, resolve(runtime.context, state), stage.name)

    def after_opening(
        state: StageState, runtime: Runtime[Context]
    ) -> Literal["seed", "judge", "optimize", "tune", "exhausted"]:
        return routing.after_opening(state, resolve(runtime.context, state))

    def after_evaluation(state: StageState, runtime: Runtime[Context]) -> Literal["repair", "optimize", "accept"]:
        return routing.after_evaluation(state, resolve(runtime.context, state), stage.name)

    roles, judging = RoleNodes(stage, services), JudgingNodes(stage, services)
    builder = StateGraph(StageState, context_schema=Context)
    builder.add_node("open", roles.open)
    builder.add_node("analyst", roles.analyst, retry_policy=MODEL_RETRY)
    builder.add_node("coder", roles.coder, retry_policy=MODEL_RETRY)
    builder.add_node("evaluator", judging.evaluator, retry_policy=EVALUATOR_RETRY)
    builder.add_node("debugger", roles.debugger, retry_policy=MODEL_RETRY)
    builder.add_node("tuner", judging.tuner, retry_policy=EVALUATOR_RETRY)
    builder.add_node("close", roles.close)

    builder.add_conditional_edges(START, enter, {"enter": "open", "skip": END})
    builder.add_conditional_edges(
        "open",
        after_opening,
        {"seed": "coder", "judge": "evaluator", "optimize": "analyst", "tune": "tuner", "exhausted": "close"},
    )
    builder.add_conditional_edges(
        "analyst",
        routing.after_analysis,
        {"judge": "evaluator", "rewrite": "coder", "sweep_or_accept": "tuner"},
    )
    builder.add_edge("coder", "evaluator")
    builder.add_conditional_edges(
        "evaluator", after_evaluation, {"repair": "debugger", "optimize": "analyst", "accept": "tuner"}
    )
    builder.add_edge("debugger", "coder")
    builder.add_edge("tuner", "close")
    builder.add_edge("close", END)
    return builder.compile(name=stage.name)

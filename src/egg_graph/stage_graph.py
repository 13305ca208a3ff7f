"""The steps of one stage. The same function adds all four; stages.py holds how they differ, as data."""

from typing import Literal

from langgraph.runtime import get_runtime
from langgraph.types import Send

from egg_graph import routing
from egg_graph.context import Context, resolve
from egg_graph.nodes.judging import JudgingNodes
from egg_graph.nodes.retries import EVALUATOR_RETRY, MODEL_RETRY
from egg_graph.nodes.roles import RoleNodes
from egg_graph.nodes.services import Services
from egg_graph.nodes.side_by_side import SideBySideNodes
from egg_graph.stages import Stage
from egg_graph.state import OutputState, StageState, State
from egg_graph.steering.topology import SEPARATOR, Topology
from egg_graph.steering.validation import check_state, checked


def add_stage(topology: Topology, stage: Stage, services: Services, following: str) -> None:
    """Add the steps of one stage.

    open → analyst ─┬ rewrite → coder → evaluator ─┬ repair → debugger → coder
                    │                              ├ optimize → analyst
                    └ sweep or accept ──→ tuner ←──┴ accept
                                            └ close → the following step

    Where the coder has ordered several drafts, they are written and judged side by side:

    coder → draft, draft, … → evaluator → judge, judge, … → rank ─ as the evaluator

    A stage that is left out, or that would tune what nothing times, goes from open to the following step. A kernel that
    a person put in place of the best one goes from open, or from the analyst, to the evaluator first.

    Args:
        following: the step after this stage.
    """

    def after_opening(state: StageState) -> Literal["skip", "seed", "judge", "optimize", "tune", "exhausted"]:
        return routing.after_opening(state, knobs_of(state), stage.name, paid=services.paid)

    def after_analysis(state: State) -> Literal["judge", "rewrite", "sweep_or_accept"]:
        return routing.after_analysis(state)

    def after_coder(state: StageState) -> Literal["alone"] | list[Send]:
        if routing.after_coder(state) == "alone":
            return "alone"
        return side.orders(check_state(state), knobs_of(state), step("draft"))  # type: ignore[arg-type]

    @checked
    def after_evaluator(state: StageState) -> Literal["rank", "repair", "optimize", "accept"] | list[Send]:
        way = routing.after_evaluator(state, knobs_of(state), stage.name, paid=services.paid)
        return side.waiting(state, step("judge")) if way == "side_by_side" else way

    def after_evaluation(state: StageState) -> Literal["repair", "optimize", "accept"]:
        return routing.after_evaluation(state, knobs_of(state), stage.name, paid=services.paid)

    def step(name: str) -> str:
        return f"{stage.name}{SEPARATOR}{name}"

    roles, judging, side = RoleNodes(stage, services), JudgingNodes(stage, services), SideBySideNodes(stage, services)
    topology.node(step("open"), roles.open, EVALUATOR_RETRY)
    topology.node(step("analyst"), roles.analyst, MODEL_RETRY)
    topology.node(step("coder"), roles.coder, MODEL_RETRY)
    topology.node(step("draft"), side.draft, MODEL_RETRY)
    topology.node(step("evaluator"), judging.evaluator, EVALUATOR_RETRY)
    topology.node(step("judge"), side.judge, EVALUATOR_RETRY)
    topology.node(step("rank"), side.rank)
    topology.node(step("debugger"), roles.debugger, MODEL_RETRY)
    topology.node(step("tuner"), judging.tuner, EVALUATOR_RETRY)
    topology.node(step("close"), roles.close)

    topology.branch(
        step("open"),
        after_opening,
        {
            "skip": following,
            "seed": step("coder"),
            "judge": step("evaluator"),
            "optimize": step("analyst"),
            "tune": step("tuner"),
            "exhausted": step("close"),
        },
    )
    topology.branch(
        step("analyst"),
        after_analysis,
        {"judge": step("evaluator"), "rewrite": step("coder"), "sweep_or_accept": step("tuner")},
    )
    topology.detour(
        step("coder"), after_coder, {"side_by_side": step("draft")}, {"alone": step("evaluator")}, routing.after_coder
    )
    topology.detour(
        step("evaluator"),
        after_evaluator,
        {"side_by_side": step("judge"), "rank": step("rank")},
        {"repair": step("debugger"), "optimize": step("analyst"), "accept": step("tuner")},
        after_evaluation,
    )
    topology.edge(step("judge"), step("rank"))
    topology.edge(step("debugger"), step("coder"))
    topology.edge(step("tuner"), step("close"))


def knobs_of(state: OutputState) -> Context:
    """The knobs by which a route is chosen.

    A route takes no `Runtime`: LangGraph has none for it where a person edits the state, and then the run's own hold.
    """
    try:
        runtime = get_runtime(Context)
    except RuntimeError:  # outside of a run
        return resolve(None, state)
    return resolve(runtime and runtime.context, state)

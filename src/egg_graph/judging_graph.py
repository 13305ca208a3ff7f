"""The evaluator alone as a graph: one kernel in, one verdict out.

START → prepare → baseline → evaluate → END
"""

from dataclasses import asdict, dataclass, field, fields
from typing import Any, NotRequired, Required

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Checkpointer
from typing_extensions import TypedDict

from egg_graph.arguments import KernelText, ReferenceText, TaskName
from egg_graph.calls import Call, run
from egg_graph.context import Context, Device, make_context
from egg_graph.evaluator.protocol import Evaluator
from egg_graph.nodes.prepare import make_task
from egg_graph.nodes.retries import EVALUATOR_RETRY
from egg_graph.nodes.services import Services
from egg_graph.schema import Baseline, Candidate, Domain, Evaluation, KernelTask, Precision
from egg_graph.tools.judge import judge_finalist, read_kernel
from egg_graph.tools.results import kernel_result

_TOLD = {knob.name: knob.metadata for knob in fields(Context)}
_DEFAULT = Context()


@dataclass(kw_only=True, frozen=True)
class JudgeContext:
    """The knobs of one verdict. Every one has a default."""

    precision: Precision = field(default=_DEFAULT.precision, metadata=_TOLD["precision"])
    domain: Domain = field(default=_DEFAULT.domain, metadata=_TOLD["domain"])
    target: str = field(default=_DEFAULT.target, metadata=_TOLD["target"])
    device: Device = field(default=_DEFAULT.device, metadata=_TOLD["device"])
    profile: bool = field(default=_DEFAULT.profile, metadata=_TOLD["profile"])
    triton_only: bool = field(default=_DEFAULT.triton_only, metadata=_TOLD["triton_only"])
    knowledge_dir: str | None = field(default=_DEFAULT.knowledge_dir, metadata=_TOLD["knowledge_dir"])


class JudgeInput(TypedDict):
    """A module, and the kernel that may replace it."""

    reference: Required[ReferenceText]
    kernel: Required[KernelText]
    name: NotRequired[TaskName]


class JudgeOutput(TypedDict, total=False):
    """The verdict, and all that it rests on."""

    status: str
    reason: str
    usable: bool
    ratio: float | None
    proven: list[str]
    not_proven: list[str]
    not_preserved: list[str]
    findings: list[str]
    baseline: Baseline
    evaluation: Evaluation


class JudgeState(JudgeInput, JudgeOutput, total=False):
    """The state of the graph."""

    task: KernelTask
    candidate: Candidate


@dataclass
class JudgeNodes:
    """The three nodes."""

    services: Services

    def prepare(self, state: JudgeState, runtime: Runtime[JudgeContext]) -> dict[str, Any]:
        """Read module and kernel."""
        context = run(self.services.aim(_context(runtime)))
        task = make_task(state.get("reference"), state.get("name"), context)
        return {"task": task, "candidate": read_kernel(state.get("kernel"))}

    def baseline(self, state: JudgeState, runtime: Runtime[JudgeContext]) -> dict[str, Any]:
        """Run and measure the module itself."""
        return {"baseline": Call(self.services.get_evaluator(_context(runtime)).baseline, state["task"]).make()}

    def evaluate(self, state: JudgeState, runtime: Runtime[JudgeContext]) -> dict[str, Any]:
        """Judge the kernel as a finalist."""
        evaluator = self.services.get_evaluator(_context(runtime))
        evaluation = judge_finalist(evaluator, state["task"], state["candidate"])
        result = kernel_result(evaluation)
        return {**{key: value for key, value in result.items() if key != "evidence"}, "evaluation": evaluation}


def _context(runtime: Runtime[JudgeContext]) -> Context:
    """The knobs of a run that a verdict's knobs stand for."""
    return make_context(asdict(runtime.context or JudgeContext()))


def build_judging_graph(
    evaluator: Evaluator | None = None, *, checkpointer: Checkpointer = None, name: str = "evaluator"
) -> CompiledStateGraph[JudgeState, JudgeContext, JudgeInput, JudgeOutput]:
    """Build the evaluator alone as a graph: no model and no team, only the verdict on a kernel that is handed in.

    Args:
        evaluator: judges the kernel; None for the evaluator of this machine.
        checkpointer, name: passed to `StateGraph.compile`.
    """
    nodes = JudgeNodes(Services(evaluator=evaluator))
    builder = StateGraph(JudgeState, context_schema=JudgeContext, input_schema=JudgeInput, output_schema=JudgeOutput)
    builder.add_node("prepare", nodes.prepare)
    builder.add_node("baseline", nodes.baseline, retry_policy=EVALUATOR_RETRY)
    builder.add_node("evaluate", nodes.evaluate, retry_policy=EVALUATOR_RETRY)
    builder.add_edge(START, "prepare")
    builder.add_edge("prepare", "baseline")
    builder.add_edge("baseline", "evaluate")
    builder.add_edge("evaluate", END)
    return builder.compile(checkpointer=checkpointer, name=name)

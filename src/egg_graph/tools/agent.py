"""Tools for agents: `egg_tool` optimizes a module, `evaluate_tool` judges a kernel."""

import contextvars
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool, ToolException
from langgraph.config import get_stream_writer

from egg_graph.arguments import KernelText, ReferenceText, TaskName, describe_arguments
from egg_graph.context import make_context
from egg_graph.evaluator.protocol import Evaluator
from egg_graph.nodes.events import Event
from egg_graph.runs.optimize import optimize
from egg_graph.schema import EggError, Principle
from egg_graph.team import Team, check_model
from egg_graph.tools.judge import JUDGE_KNOBS, judge_kernel
from egg_graph.tools.results import KernelResult, RunResult, run_result

RUN_KNOBS = ("target", "precision", "max_attempts", "max_seconds")
"""Knobs that `egg_tool` offers to the agent, where the caller names no others."""

OPTIMIZE = (
    "Replace a PyTorch module by a Triton kernel that is proven to give the same answers. Takes minutes; max_attempts "
    "and max_seconds bound it. Returns status, verdict (what was proven and what was not), kernel (its source; empty "
    "where the module is better kept), ratio (speedup, null where no GPU timed it) and evidence (a folder)."
)
EVALUATE = (
    "Judge whether a Triton kernel may replace a PyTorch module: right answers, honest work and, on a GPU, time. "
    "Returns status, reason, usable, ratio (speedup, null where no GPU timed it), proven, not_proven, not_preserved, "
    "findings with their cure, and evidence (a file)."
)


def egg_tool(
    model: Any = None,
    *,
    team: Team | None = None,
    evaluator: Evaluator | None = None,
    principles: Sequence[Principle] | None = None,
    runs_dir: str | Path = "runs",
    offer: Sequence[str] = RUN_KNOBS,
    name: str = "optimize_module",
    description: str = OPTIMIZE,
    **knobs: Any,
) -> BaseTool:
    """A tool with which an agent optimizes one PyTorch module; it returns a `RunResult`.

    Every call is a run with a folder of its own in `runs_dir`. Inside a LangGraph graph the run's events appear on the
    graph's `custom` stream. What was wrong with the input, the model's endpoint or the machine is told to the agent in
    one line.

    Args:
        model, team, evaluator, principles: see `egg_graph_builder`.
        runs_dir: the folders of the runs are made in this folder.
        offer: the knobs of `Context` that the agent may set.
        name: name of the tool.
        description: what the tool does, for the agent.
        **knobs: knobs of `Context` for every run. The agent may not set these.

    Raises:
        BadInput: if `model` can never become a team, or a knob is unknown or wrong.
    """
    check_model(model)
    make_context(knobs)
    offered = [knob for knob in offer if knob not in knobs]
    services = {"model": model, "team": team, "evaluator": evaluator, "principles": principles}

    def optimize_module(**arguments: Any) -> RunResult:
        reference, task = arguments.pop("reference", ""), arguments.pop("name", None)
        refuse_unknown(arguments, ("reference", "name", *offered))
        start = partial(optimize, reference, name=task, runs_dir=runs_dir, on_event=stream_writer(), **services)
        run = in_one_line(lambda: alone(partial(start, **knobs, **arguments)))
        return run_result(run.state, str(run.folder.resolve()))

    schema = describe_arguments({"reference": ReferenceText, "name": TaskName}, offered, required=["reference"])
    return StructuredTool.from_function(
        optimize_module, name=name, description=description, args_schema=schema, handle_tool_error=True
    )


def evaluate_tool(
    evaluator: Evaluator | None = None,
    *,
    runs_dir: str | Path = "runs",
    offer: Sequence[str] = JUDGE_KNOBS,
    name: str = "evaluate_kernel",
    description: str = EVALUATE,
    **knobs: Any,
) -> BaseTool:
    """A tool with which an agent has a kernel judged, as a finalist is; it returns a `KernelResult`.

    Args:
        evaluator: judges the kernels; None for the evaluator of this machine.
        runs_dir: the record of each verdict is written into this folder.
        offer: the knobs of `Context` that the agent may set.
        name: name of the tool.
        description: what the tool does, for the agent.
        **knobs: knobs of `Context` for every verdict. The agent may not set these.

    Raises:
        BadInput: if a knob is unknown or wrong.
    """
    make_context(knobs)
    offered = [knob for knob in offer if knob not in knobs]

    def evaluate_kernel(**arguments: Any) -> KernelResult:
        reference, kernel = arguments.pop("reference", ""), arguments.pop("kernel", "")
        refuse_unknown(arguments, ("reference", "kernel", *offered))
        judge = partial(judge_kernel, reference, kernel, evaluator=evaluator, runs_dir=Path(runs_dir))
        return in_one_line(lambda: judge(make_context({**knobs, **arguments})))

    arguments = {"reference": ReferenceText, "kernel": KernelText}
    return StructuredTool.from_function(
        evaluate_kernel,
        name=name,
        description=description,
        args_schema=describe_arguments(arguments, offered, required=["reference", "kernel"]),
        handle_tool_error=True,
    )


def in_one_line(work: Callable[[], Any]) -> Any:
    """Do the work. What egg-graph refuses becomes a `ToolException`, whose one line the agent reads."""
    try:
        return work()
    except EggError as error:
        raise ToolException(str(error)) from error


def refuse_unknown(arguments: dict[str, Any], known: Sequence[str]) -> None:
    """Refuse an argument that the tool does not have, or that its maker has set."""
    for name in arguments:
        if name not in known:
            raise ToolException(f"no argument {name!r}; the arguments are {', '.join(known)}")


def alone(work: Callable[[], Any]) -> Any:
    """Do the work outside of the caller's graph: its own checkpoints, and no step on the caller's thread."""
    return contextvars.Context().run(work)


def stream_writer() -> Callable[[Event], None] | None:
    """What writes to the `custom` stream of the graph that called the tool; None outside of a graph."""
    try:
        write = get_stream_writer()
    except (RuntimeError, KeyError):  # how langgraph says that no graph is running
        return None
    caller = contextvars.copy_context()  # the writer looks there for the graph that it writes to
    return lambda event: caller.run(write, event)

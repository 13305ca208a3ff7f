"""egg-graph: PyTorch references in, proven Triton kernels out. Implements EGG (arXiv 2606.26758) on LangGraph.

Names load on first use: `import egg_graph` alone loads neither torch, triton, openai nor langgraph.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from egg_graph.chat_graph import build_chat_graph
    from egg_graph.context import Context
    from egg_graph.evaluator.protocol import Evaluator
    from egg_graph.graph import build_egg_graph, egg_graph_builder
    from egg_graph.judging_graph import build_judging_graph
    from egg_graph.runs.optimize import optimize, resume
    from egg_graph.runs.results import Run
    from egg_graph.schema import (
        BadInput,
        Candidate,
        EggError,
        Evaluation,
        InfrastructureError,
        KernelTask,
        ModelRefused,
    )
    from egg_graph.state import InputState, OutputState, State
    from egg_graph.team import Team
    from egg_graph.tools.agent import egg_tool, evaluate_tool

_HOMES = {
    "BadInput": "schema",
    "Candidate": "schema",
    "Context": "context",
    "EggError": "schema",
    "Evaluation": "schema",
    "Evaluator": "evaluator.protocol",
    "InfrastructureError": "schema",
    "InputState": "state",
    "KernelTask": "schema",
    "ModelRefused": "schema",
    "OutputState": "state",
    "Run": "runs.results",
    "State": "state",
    "Team": "team",
    "build_chat_graph": "chat_graph",
    "build_egg_graph": "graph",
    "build_judging_graph": "judging_graph",
    "egg_graph_builder": "graph",
    "egg_tool": "tools.agent",
    "evaluate_tool": "tools.agent",
    "optimize": "runs.optimize",
    "resume": "runs.optimize",
}

__all__ = [
    "BadInput",
    "Candidate",
    "Context",
    "EggError",
    "Evaluation",
    "Evaluator",
    "InfrastructureError",
    "InputState",
    "KernelTask",
    "ModelRefused",
    "OutputState",
    "Run",
    "State",
    "Team",
    "build_chat_graph",
    "build_egg_graph",
    "build_judging_graph",
    "egg_graph_builder",
    "egg_tool",
    "evaluate_tool",
    "optimize",
    "resume",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'egg_graph' has no attribute {name!r}")
    value = getattr(import_module(f"egg_graph.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})

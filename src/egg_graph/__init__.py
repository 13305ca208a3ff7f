"""egg-graph: PyTorch references in, proven Triton kernels out. Implements EGG (arXiv 2606.26758) on LangGraph.

Names load on first use: `import egg_graph` alone loads neither torch, triton, openai nor langgraph.
"""

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from egg_graph.chat_graph import build_chat_graph
    from egg_graph.context import Context
    from egg_graph.evaluator.protocol import Evaluator
    from egg_graph.graph import build_egg_graph, egg_graph_builder
    from egg_graph.judging_graph import build_judging_graph
    from egg_graph.nodes.events import Event
    from egg_graph.runs.optimize import aoptimize, aresume, optimize, resume
    from egg_graph.runs.results import Run
    from egg_graph.runs.tune import tune
    from egg_graph.schema import (
        Analysis,
        AnswerPending,
        Attempt,
        BadInput,
        Baseline,
        Brief,
        Candidate,
        Diagnosis,
        Draft,
        EggError,
        Evaluation,
        InfrastructureError,
        KernelTask,
        ModelRefused,
        ModelUnavailable,
        Trial,
    )
    from egg_graph.state import InputState, OutputState, State, to_json
    from egg_graph.steering.serde import checkpoint_serde
    from egg_graph.steering.serving import served
    from egg_graph.steering.topology import Insert
    from egg_graph.team import Team
    from egg_graph.tools.agent import egg_tool, evaluate_tool

logging.getLogger("egg_graph").addHandler(logging.NullHandler())

_HOMES = {
    "Analysis": "schema",
    "AnswerPending": "schema",
    "Attempt": "schema",
    "BadInput": "schema",
    "Baseline": "schema",
    "Brief": "schema",
    "Candidate": "schema",
    "Context": "context",
    "Diagnosis": "schema",
    "Draft": "schema",
    "EggError": "schema",
    "Evaluation": "schema",
    "Evaluator": "evaluator.protocol",
    "Event": "nodes.events",
    "InfrastructureError": "schema",
    "InputState": "state",
    "Insert": "steering.topology",
    "KernelTask": "schema",
    "ModelRefused": "schema",
    "ModelUnavailable": "schema",
    "OutputState": "state",
    "Run": "runs.results",
    "State": "state",
    "Team": "team",
    "Trial": "schema",
    "aoptimize": "runs.optimize",
    "aresume": "runs.optimize",
    "build_chat_graph": "chat_graph",
    "build_egg_graph": "graph",
    "build_judging_graph": "judging_graph",
    "checkpoint_serde": "steering.serde",
    "egg_graph_builder": "graph",
    "egg_tool": "tools.agent",
    "evaluate_tool": "tools.agent",
    "optimize": "runs.optimize",
    "resume": "runs.optimize",
    "served": "steering.serving",
    "to_json": "state",
    "tune": "runs.tune",
}

__all__ = [
    "Analysis",
    "AnswerPending",
    "Attempt",
    "BadInput",
    "Baseline",
    "Brief",
    "Candidate",
    "Context",
    "Diagnosis",
    "Draft",
    "EggError",
    "Evaluation",
    "Evaluator",
    "Event",
    "InfrastructureError",
    "InputState",
    "Insert",
    "KernelTask",
    "ModelRefused",
    "ModelUnavailable",
    "OutputState",
    "Run",
    "State",
    "Team",
    "Trial",
    "aoptimize",
    "aresume",
    "build_chat_graph",
    "build_egg_graph",
    "build_judging_graph",
    "checkpoint_serde",
    "egg_graph_builder",
    "egg_tool",
    "evaluate_tool",
    "optimize",
    "resume",
    "served",
    "to_json",
    "tune",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'egg_graph' has no attribute {name!r}")
    value = getattr(import_module(f"egg_graph.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})

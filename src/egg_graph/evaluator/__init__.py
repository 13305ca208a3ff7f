"""The evaluator: may this candidate replace this reference, and what is the evidence?

It is usable alone, with torch, triton, numpy and pydantic; on a host with an NVIDIA GPU also with nvidia-ml-py;
behind a URL with httpx, and as that URL's server with FastAPI and uvicorn.
Importing this package loads none of these but pydantic: functions import what they need when they are called.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from egg_graph.evaluator.progress import Progress, hear_progress, heard_here, report_progress
from egg_graph.evaluator.protocol import Evaluator

if TYPE_CHECKING:
    from egg_graph.evaluator.device.detect import environment, gpu_present
    from egg_graph.evaluator.local import LocalEvaluator
    from egg_graph.evaluator.pool import EvaluatorPool
    from egg_graph.evaluator.problem.forward_form import Form, forward_form
    from egg_graph.evaluator.problem.knobs import shape_knobs
    from egg_graph.evaluator.problem.precision import cast_as_policy_says, cast_model
    from egg_graph.evaluator.problem.recurrences import recurrence_answer
    from egg_graph.evaluator.problem.reference import Reference, load_reference
    from egg_graph.evaluator.problem.shapes import choose_shapes
    from egg_graph.evaluator.ray_pool import RayPool
    from egg_graph.evaluator.remote.remote_evaluator import RemoteEvaluator
    from egg_graph.evaluator.remote.spool_evaluator import SpoolEvaluator
    from egg_graph.evaluator.tools.compiled_metrics import profile_from_compiler

__all__ = [
    "Evaluator",
    "EvaluatorPool",
    "Form",
    "LocalEvaluator",
    "Progress",
    "RayPool",
    "Reference",
    "RemoteEvaluator",
    "SpoolEvaluator",
    "cast_as_policy_says",
    "cast_model",
    "choose_shapes",
    "environment",
    "forward_form",
    "gpu_present",
    "hear_progress",
    "heard_here",
    "load_reference",
    "profile_from_compiler",
    "recurrence_answer",
    "report_progress",
    "shape_knobs",
]

_HOME = {
    "EvaluatorPool": "pool",
    "LocalEvaluator": "local",
    "RayPool": "ray_pool",
    "RemoteEvaluator": "remote.remote_evaluator",
    "SpoolEvaluator": "remote.spool_evaluator",
    "environment": "device.detect",
    "gpu_present": "device.detect",
    "Reference": "problem.reference",
    "load_reference": "problem.reference",
    "Form": "problem.forward_form",
    "forward_form": "problem.forward_form",
    "cast_as_policy_says": "problem.precision",
    "cast_model": "problem.precision",
    "recurrence_answer": "problem.recurrences",
    "shape_knobs": "problem.knobs",
    "choose_shapes": "problem.shapes",
    "profile_from_compiler": "tools.compiled_metrics",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)

"""The embedded expert: the three roles played with no model, from the captured graph and a shelf of playbooks.

Importing this package loads no torch: references are captured in child processes.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from egg_graph.expert.capture.graph import CapturedGraph
    from egg_graph.expert.capture.process import CannotCapture, capture_graph
    from egg_graph.expert.playbooks.registry import playbook_guidance
    from egg_graph.expert.roles.report import CaptureReport, capture_report
    from egg_graph.expert.roles.team import EmbeddedExpert

__all__ = [
    "CannotCapture",
    "CaptureReport",
    "CapturedGraph",
    "EmbeddedExpert",
    "capture_graph",
    "capture_report",
    "playbook_guidance",
]

_HOME = {
    "CannotCapture": "capture.process",
    "CaptureReport": "roles.report",
    "CapturedGraph": "capture.graph",
    "EmbeddedExpert": "roles.team",
    "capture_graph": "capture.process",
    "capture_report": "roles.report",
    "playbook_guidance": "playbooks.registry",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)

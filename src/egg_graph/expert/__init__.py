"""The embedded expert: the three roles played with no model, from the captured graph and a shelf of playbooks.

Importing this package loads no torch: references are captured in child processes.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from egg_graph.expert.captured import CapturedGraph
    from egg_graph.expert.capturing import CannotCapture, capture
    from egg_graph.expert.registry import playbook_guidance
    from egg_graph.expert.report import CaptureReport, capture_report
    from egg_graph.expert.team import EmbeddedExpert

__all__ = [
    "CannotCapture",
    "CaptureReport",
    "CapturedGraph",
    "EmbeddedExpert",
    "capture",
    "capture_report",
    "playbook_guidance",
]

_HOME = {
    "CannotCapture": "capturing",
    "CaptureReport": "report",
    "CapturedGraph": "captured",
    "EmbeddedExpert": "team",
    "capture": "capturing",
    "capture_report": "report",
    "playbook_guidance": "registry",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)

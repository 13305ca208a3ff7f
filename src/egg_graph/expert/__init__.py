"""The embedded expert: analyst, coder and debugger without a model, from a captured graph and a set of playbooks.

`capture` turns a reference into a graph, `playbooks` split it into groups, `codegen` writes their Triton, and `roles`
play the team. Importing this package loads no torch: references are captured in child processes.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from egg_graph.expert.capture.errors import CannotCapture
    from egg_graph.expert.capture.graph import CapturedGraph
    from egg_graph.expert.capture.process import capture_graph
    from egg_graph.expert.codegen.group import Group, KernelCode
    from egg_graph.expert.playbooks.playbook import Alternative, Playbook
    from egg_graph.expert.playbooks.registry import add_playbook, guidance_for
    from egg_graph.expert.roles.team import EmbeddedExpert

__all__ = [
    "Alternative",
    "CannotCapture",
    "CapturedGraph",
    "EmbeddedExpert",
    "Group",
    "KernelCode",
    "Playbook",
    "add_playbook",
    "capture_graph",
    "guidance_for",
]

_HOMES = {
    "Alternative": "playbooks.playbook",
    "CannotCapture": "capture.errors",
    "CapturedGraph": "capture.graph",
    "EmbeddedExpert": "roles.team",
    "Group": "codegen.group",
    "KernelCode": "codegen.group",
    "Playbook": "playbooks.playbook",
    "add_playbook": "playbooks.registry",
    "capture_graph": "capture.process",
    "guidance_for": "playbooks.registry",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)

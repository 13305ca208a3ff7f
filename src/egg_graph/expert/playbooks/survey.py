"""Where the choice of a structure was measured: on which architecture, and for which groups.

In the survey every structure that a playbook could write for a reference was timed, each swept over its knobs; the
rules by which playbooks choose were fitted to it. So where it holds, the first choice is the last as well.
"""

from egg_graph.expert.capture.graph import CapturedGraph
from egg_graph.expert.codegen.group import Group
from egg_graph.schema import FP32, Hardware, Precision

SURVEYS = {"sm_90": "survey of KernelBench levels 1 and 2 on an H200"}
"""By architecture: the survey that was made on a GPU of it."""
OTHER_FLOATS = ("float16", "bfloat16", "float64")
"""Types of elements that no surveyed reference has."""


def survey_of(
    graph: CapturedGraph,
    group: Group,
    precision: Precision,
    target: Hardware,
    policies: tuple[Precision, ...] = FP32,
) -> str:
    """Return the survey that speaks of a group on a target, in words; empty where none does.

    Args:
        graph: The captured reference.
        group: Spoken of are groups that read and write fp32.
        precision: The task's precision policy.
        target: The GPU.
        policies: Those under which such groups were measured.
    """
    if precision not in policies or any(graph[name].dtype in OTHER_FLOATS for name in (*group.inputs, *group.outputs)):
        return ""
    return SURVEYS.get(target.arch, "")

"""Which structure a seed starts from: what paid on hardware like the target, by measurement on an H200."""

from egg_graph.expert.capture.graph import CapturedGraph
from egg_graph.expert.playbooks.playbook import Group
from egg_graph.schema import Hardware, Precision

TMA_ARCHITECTURES = ("sm_90", "sm_100", "sm_103", "sm_120")
SMALLEST_PRODUCT = 512
"""Rows and columns from which a product fills persistent 128 x 256 tiles."""
LARGEST_TMA_HEAD = 128
"""Of fp32 attention; tiles of larger heads do not fit into shared memory beside each other."""


def preferred(graph: CapturedGraph, group: Group, precision: Precision, target: Hardware) -> str:
    """The variant of a group's playbook to begin with; the playbook's own choice where nothing better is known.

    On an H200 a product fed by TMA took about half the time of the pointer structure at TF32 and a little less at 16
    bit; attention fed by TMA was faster at TF32 and no different at 16 bit (`tests/gpu` prints the times).
    """
    if target.arch not in TMA_ARCHITECTURES or precision == "ieee" or group.variant != "pointer":
        return group.variant
    output = graph[group.outputs[0]]
    if group.playbook == "gemm":
        large = len(output.shape) >= 2 and min(output.shape[-2:]) >= SMALLEST_PRODUCT
        return "tma" if large else group.variant
    small_head = group.playbook == "attention" and output.dtype == "float32" and output.shape[-1] <= LARGEST_TMA_HEAD
    return "tma" if small_head else group.variant

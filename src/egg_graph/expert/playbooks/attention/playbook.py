"""Attention forward as one kernel with the online softmax (FlashAttention, arXiv 2205.14135)."""

from egg_graph.expert.capture.graph import CapturedGraph
from egg_graph.expert.codegen.group import Group, KernelCode
from egg_graph.expert.playbooks.attention.match import attention_at, group_at
from egg_graph.expert.playbooks.attention.writer import AttentionWriter
from egg_graph.expert.playbooks.knobs import TMA_ARCHITECTURES
from egg_graph.expert.playbooks.playbook import Alternative, Playbook
from egg_graph.schema import Hardware, Precision

LARGEST_TMA_HEAD = 128
"""The largest fp32 head that TMA takes: tiles of larger heads do not fit into shared memory beside each other."""


class AttentionPlaybook(Playbook):
    """scaled_dot_product_attention, or the same written out as matmul, scale, mask, softmax, matmul."""

    name = "attention"
    operators = frozenset({
        "scaled_dot_product_attention", "_scaled_dot_product_attention_math", "_scaled_dot_product_flash_attention",
        "_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_efficient_attention",
        "_scaled_dot_product_cudnn_attention",
    })  # fmt: skip
    guidance = (
        "Attention: keep a tile of queries and its running softmax in registers and stream keys and values past "
        "it; the T x T scores never reach memory. Read [B, H, T, D] through strides, so that views of [B, T, H * "
        "D] need no copy. Causal: stop at the diagonal, mask only the blocks on it, start the longest tiles first. "
        "Work in log2: exp2 is one instruction. Under TF32 round q, k, p and v to nearest; Hopper's tensor cores "
        "take fp32 operands only with the summed dimension contiguous, so v must be transposed: once in a pass of "
        "its own with operands by TMA, or in every tile."
    )
    variants = ("pointer", "tma")
    alternatives = (
        Alternative(
            "tma", "memory_access", "TMA feeds keys and values without address arithmetic", ("tma_descriptors",)
        ),
    )
    complexity = 7

    def is_about(self, operators: frozenset[str]) -> bool:
        """Return whether the reference has attention: the fused operator, or a softmax beside a batched product."""
        softmax, product = operators & {"softmax", "_softmax"}, operators & {"bmm", "matmul", "baddbmm"}
        return bool(self.operators & operators or (softmax and product))

    def match(self, graph: CapturedGraph, start: str, free: frozenset[str]) -> Group | None:
        """Group the fused operator at `start`, or an attention written out whose first matrix product is there."""
        return group_at(graph, self.name, start, free, self.variants[0])

    def preferred_variant(self, graph: CapturedGraph, group: Group, precision: Precision, target: Hardware) -> str:
        """Begin with TMA for fp32 heads of at most 128: on an H200 it was faster at TF32 and no different at 16 bit."""
        if target.arch not in TMA_ARCHITECTURES or precision == "ieee" or group.variant != "pointer":
            return group.variant
        output = graph[group.outputs[0]]
        return "tma" if output.dtype == "float32" and output.shape[-1] <= LARGEST_TMA_HEAD else group.variant

    def write(
        self, graph: CapturedGraph, group: Group, name: str, precision: Precision, target: Hardware | None = None
    ) -> KernelCode:
        """Write kernel and wrapper: products in the policy's precision, softmax and sums in fp32."""
        inside = frozenset(group.nodes)
        found = next(a for a in (attention_at(graph, n, inside) for n in group.nodes) if a is not None)
        return AttentionWriter(graph, group, found, name, precision, target).code()

"""Attention forward as one kernel with the online softmax (FlashAttention, arXiv 2205.14135)."""

from egg_graph.expert.capture.graph import CapturedGraph
from egg_graph.expert.codegen.group import Group, KernelCode
from egg_graph.expert.playbooks.attention.match import Attention, attention_at, group_at
from egg_graph.expert.playbooks.attention.split_keys import SplitKeysWriter, has_few_queries
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
        "D] need no copy. Causal: stop at the diagonal, mask only its blocks, start the longest tiles first. "
        "Work in log2: exp2 is one instruction. Under TF32 round q, k, p and v to nearest; Hopper's tensor cores "
        "take fp32 operands only with the summed dimension contiguous, so v must be transposed, once by a pass or in "
        "every tile. Decoding is memory-bound: one tile for all heads that share keys, the keys in pieces."
    )
    variants = ("pointer", "tma", "split_keys")
    alternatives = (
        Alternative(
            "tma", "memory_access", "TMA feeds keys and values without address arithmetic", ("tma_descriptors",)
        ),
        Alternative(
            "split_keys", "parallel_mapping", "few queries: heads that share keys read them once, in pieces",
            ("fill_the_machine",),
        ),
    )  # fmt: skip
    complexity = 7

    def is_about(self, operators: frozenset[str]) -> bool:
        """Return whether the reference has attention: the fused operator, or a softmax beside a batched product."""
        softmax, product = operators & {"softmax", "_softmax"}, operators & {"bmm", "matmul", "baddbmm"}
        return bool(self.operators & operators or (softmax and product))

    def match(self, graph: CapturedGraph, start: str, free: frozenset[str]) -> Group | None:
        """Group the fused operator at `start`, or an attention written out whose first matrix product is there."""
        return group_at(graph, self.name, start, free, self.variants[0])

    def structures(self, graph: CapturedGraph, group: Group, target: Hardware | None = None) -> tuple[str, ...]:
        """Return `split_keys` alone for few queries of which every one sees every key, and the others elsewhere.

        For few queries the others read the keys once for each head of the queries, and fill less of the machine.
        """
        few = has_few_queries(graph, _attention_of(graph, group))
        return tuple(v for v in self.variants if (v == "split_keys") == few)

    def preferred_variant(self, graph: CapturedGraph, group: Group, precision: Precision, target: Hardware) -> str:
        """Begin with the keys in pieces for few queries, else with TMA for fp32 heads of at most 128.

        On an H200 TMA was faster at TF32 and no different at 16 bit.
        """
        if group.variant != "pointer":
            return group.variant
        if "split_keys" in self.structures(graph, group, target):
            return "split_keys"
        if target.arch not in TMA_ARCHITECTURES or precision == "ieee":
            return group.variant
        output = graph[group.outputs[0]]
        return "tma" if output.dtype == "float32" and output.shape[-1] <= LARGEST_TMA_HEAD else group.variant

    def write(
        self, graph: CapturedGraph, group: Group, name: str, precision: Precision, target: Hardware | None = None
    ) -> KernelCode:
        """Write kernel and wrapper: products in the policy's precision, softmax and sums in fp32."""
        found = _attention_of(graph, group)
        split = group.variant == "split_keys" and has_few_queries(graph, found)
        writer = SplitKeysWriter if split else AttentionWriter
        return writer(graph, group, found, name, precision, target).code()


def _attention_of(graph: CapturedGraph, group: Group) -> Attention:
    inside = frozenset(group.nodes)
    return next(a for a in (attention_at(graph, n, inside) for n in group.nodes) if a is not None)

"""What a large product is expected to take, by PyTorch's library and by our own kernel: known before any evaluation.

The rates were measured on one H200 (torch 2.11, Triton 3.6): every product of KernelBench's levels 1 and 2, our
structures swept over their knobs. The library's product and ours run at one speed; ours loses by the pass that rounds
and packs its operands, and by what it takes beyond the sum of its kernels' device times. Where nothing was measured
(another architecture, another precision, a small product) nothing is expected.
"""

from dataclasses import dataclass
from math import prod

from egg_graph.expert.capture.graph import CapturedGraph, Node
from egg_graph.expert.codegen.fusion import is_flat_view
from egg_graph.expert.codegen.group import Group
from egg_graph.expert.playbooks.gemm.match import PRODUCTS, Product, product_at
from egg_graph.expert.playbooks.playbook import Expected
from egg_graph.expert.playbooks.survey import SURVEYS
from egg_graph.schema import TF32, Hardware, Precision


@dataclass(frozen=True)
class Rates:
    """What products reached on one architecture with operands in TF32."""

    source: str
    flops: float
    """Of the library and of our kernel alike, where rows are long and aligned [flop/s]."""
    transposed_flops: float
    """Of the library where `a` is stored transposed and `b` is row-major [flop/s]."""
    unaligned_flops: float
    """Of the library where a row of an operand is no multiple of 16 bytes [flop/s]."""
    bandwidth: float
    """Of a pass over memory [byte/s]."""
    vector_bandwidth: float
    """Of the library's matrix times vector [byte/s]."""
    own_factor: dict[str, float]
    """Measured time of our structure over the time that its flops and bytes take."""
    smallest_flops: float
    smallest_bytes: float
    """The smallest products that were measured: one of the two is reached."""


RATES = {
    "sm_90": Rates(
        source=SURVEYS["sm_90"],
        flops=418e12,
        transposed_flops=264e12,
        unaligned_flops=119e12,
        bandwidth=4.1e12,
        vector_bandwidth=3.7e12,
        own_factor={"tma": 1.25, "tma_registers": 1.25, "pointer": 1.9, "split_k": 1.6},
        smallest_flops=3e10,
        smallest_bytes=5e8,
    )
}
"""By architecture, for the policies under which products are in TF32."""
SMALLEST_MATRIX = 128
"""Rows and columns below which no matrix of a batch was measured."""


def expected_times(
    graph: CapturedGraph, group: Group, precision: Precision, target: Hardware, variant: str
) -> Expected | None:
    """Return what the product of a group takes by the library and as `variant`; None where that was not measured."""
    product = next(p for p in (product_at(graph, node) for node in group.nodes) if p is not None)
    rates = RATES.get(target.arch)
    if rates is None or precision not in TF32 or product.node.dtype != "float32":
        return None
    matrices, m, n, k = product.mnk(graph)
    flops, read = 2.0 * matrices * m * n * k, 4.0 * (matrices * m * k + _elements(graph[product.b]))
    moved = read + 4.0 * matrices * m * n
    if flops < rates.smallest_flops and moved < rates.smallest_bytes:
        return None
    if min(m, n) == 1:
        vector = rates.vector_bandwidth, rates.bandwidth
        return Expected(1e3 * moved / vector[0], 1e3 * moved / vector[1], 0.0, rates.source)
    if matrices > 1 and min(m, n) < SMALLEST_MATRIX:
        return None
    shortest = moved / rates.bandwidth
    packing = 2 * read / rates.bandwidth if variant.startswith("tma") else 0.0
    own = rates.own_factor[variant] * (max(flops / rates.flops, shortest) + packing)
    library = max(flops / _library_flops(graph, product, rates), shortest)
    passes = 0.0 if len(group.nodes) == 1 or _read_again(graph, group) else 8.0 * matrices * m * n / rates.bandwidth
    return Expected(1e3 * library, 1e3 * own, 1e3 * passes, rates.source)


def _elements(node: Node) -> int:
    return prod(node.shape)


def _library_flops(graph: CapturedGraph, product: Product, rates: Rates) -> float:
    a, b = graph[product.a], graph[product.b]
    if any(stride % 4 for node in (a, b, product.node) for stride in node.stride[-2:] if stride != 1):
        return rates.unaligned_flops
    row_major = not product.transposed_b and b.stride[-1] == 1
    return rates.transposed_flops if a.stride[-1] != 1 and row_major else rates.flops


def _read_again(graph: CapturedGraph, group: Group) -> bool:
    """Return whether a kernel behind the group reads its output anyway, and can take the group's tail along."""
    readers = list(group.outputs)
    if any(name in graph.returned for name in readers):
        return False
    while readers:
        user = graph[readers.pop()]
        for name in graph.users[user.name]:
            reader = graph[name]
            if reader.base in PRODUCTS:
                return False
            if is_flat_view(reader):
                if name in graph.returned:
                    return False
                readers.append(name)
    return True

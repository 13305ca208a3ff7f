"""Matrix products with a fused pointwise epilogue: linear, matmul, mm, bmm, addmm, baddbmm."""

from dataclasses import replace

from egg_graph.expert.capture.graph import CapturedGraph
from egg_graph.expert.codegen.group import Group, KernelCode, Tuning
from egg_graph.expert.playbooks.gemm import tiles
from egg_graph.expert.playbooks.gemm.epilogue import Epilogue, write_epilogue
from egg_graph.expert.playbooks.gemm.expected import expected_times
from egg_graph.expert.playbooks.gemm.match import Product, dimensions, group_at, product_at
from egg_graph.expert.playbooks.gemm.persistent import Ways, write_persistent
from egg_graph.expert.playbooks.gemm.pointer import write_pointer
from egg_graph.expert.playbooks.gemm.spec import GemmSpec
from egg_graph.expert.playbooks.gemm.split_k import write_split_k
from egg_graph.expert.playbooks.gemm.vector import write_vector
from egg_graph.expert.playbooks.knobs import TMA_ARCHITECTURES
from egg_graph.expert.playbooks.playbook import LIBRARY, Alternative, Expected, Playbook
from egg_graph.schema import FP32, TF32, Hardware, Knob, Precision

SMALLEST_TMA_PRODUCT = 512
"""Rows and columns from which on a product fills persistent 128 x 256 tiles."""


class GemmPlaybook(Playbook):
    """`alpha * (a @ b) + beta * addend`, then any pointwise chain over the result, in one kernel."""

    name = "gemm"
    operators = frozenset({"linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "einsum"})
    guidance = (
        "Matrix products: keep the pointwise chain behind a product in its epilogue, while the sums are in "
        "registers. Under TF32 round both operands to nearest before the tensor cores, which would truncate: "
        "truncation is a bias. On Hopper the fastest structure is one program per multiprocessor, operands by TMA, "
        "tiles of 128 x 256 x 32 (fp32) or 128 x 256 x 64 (16 bit), 8 warps, 3 to 4 stages, the tile stored in "
        "four column chunks. wgmma takes fp32 operands only with K contiguous: pack any other layout once. Few "
        "output tiles and a long K: split K in two deterministic passes. A matrix times one vector: fp32 sums without "
        "tensor cores, which bias a long one."
    )
    variants = ("pointer", "tma", "tma_registers", "split_k", "vector")
    alternatives = (
        Alternative(
            "tma", "parallel_mapping", "persistent programs fed by TMA keep the tensor cores busy across tiles",
            ("persistent_gemm", "tma_descriptors", "round_operands_rna"),
        ),
        Alternative(
            LIBRARY, "operator_fusion",
            "the library's product with one Triton tail wins where the product itself dominates",
            ("leave_plain_gemm_to_library", "one_read_per_row"),
        ),
        Alternative(
            "tma_registers", "memory_access", "operands rounded in registers spare the pass that rounds them in memory",
            ("k_major_b", "round_operands_rna"),
        ),
        Alternative(
            "split_k", "parallel_mapping", "few output tiles and a long K leave multiprocessors idle",
            ("split_k", "fill_the_machine"),
        ),
        Alternative("pointer", "memory_access", "plain pointers spare descriptors and packing where tiles are few"),
    )  # fmt: skip
    complexity = 6

    def match(self, graph: CapturedGraph, start: str, free: frozenset[str]) -> Group | None:
        """Group the product at `start` with the pointwise chain behind it; `split_k` where only that fills the GPU, and
        `vector` where b is one column."""
        group = group_at(graph, self.name, start, free, "pointer")
        if group is None:
            return None
        if _is_vector(graph, group):
            return replace(group, variant="vector")
        return replace(group, variant="split_k") if _starved(graph, group) else group

    def preferred_variant(self, graph: CapturedGraph, group: Group, precision: Precision, target: Hardware) -> str:
        """Begin with TMA for large products: on an H200 it took half the pointer structure's time at TF32."""
        if target.arch not in TMA_ARCHITECTURES or precision == "ieee" or group.variant != "pointer":
            return group.variant
        if _multiplies_sums(graph, group, precision):
            return group.variant
        output = graph[group.outputs[0]]
        large = len(output.shape) >= 2 and min(output.shape[-2:]) >= SMALLEST_TMA_PRODUCT
        return "tma" if large and not _idles(graph, group, target) else group.variant

    def measured(self, graph: CapturedGraph, group: Group, precision: Precision, target: Hardware) -> str:
        """Return the survey where a large product begins with TMA; small ones were not measured."""
        times = self.expected(graph, group, precision, target)
        return "" if times is None else times.source

    def expected(self, graph: CapturedGraph, group: Group, precision: Precision, target: Hardware) -> Expected | None:
        """Return the times measured for large products; see `egg_graph.expert.playbooks.gemm.expected`."""
        if _multiplies_sums(graph, group, precision):
            return None
        return expected_times(graph, group, precision, target, self.preferred_variant(graph, group, precision, target))

    def write(
        self, graph: CapturedGraph, group: Group, name: str, precision: Precision, target: Hardware | None = None
    ) -> KernelCode:
        """Write kernels, epilogue and wrapper.

        `tma` and `tma_registers` need tensor cores: under the ieee policy and on GPUs of other vendors `pointer` is
        written instead, as for a product of sums, whose operands are split in registers. Without TF32 there is nothing
        to round, and both are `tma`.
        """
        product = _product_of(graph, group)
        epilogue = write_epilogue(graph, group, product, name)
        fp32 = product.node.dtype == "float32" and precision in FP32
        nvidia = target is None or target.vendor == "nvidia"
        tensor_cores = fp32 and precision in TF32 and nvidia
        round_tf32, tf32x3 = tensor_cores and not product.node.of_sums, tensor_cores and product.node.of_sums
        ieee = fp32 and not tensor_cores
        matrices, m, n, k = product.mnk(graph)
        shape = tiles.ProductShape(
            matrices, m, n, k, 4 if fp32 else 2, ieee, target, _tile_operands(graph, epilogue, product)
        )
        plain = group.variant.startswith("tma") and (ieee or tf32x3 or not nvidia)
        variant = "pointer" if plain else group.variant or "pointer"
        ways = _ways(graph, product, shape, variant, round_tf32) if variant.startswith("tma") else None
        config = _tile(shape, variant, ways)
        keeps = ways is not None and not product.batched and graph.is_parameter(product.b)
        spec = GemmSpec(name, product, epilogue, graph[group.outputs[0]], round_tf32, tf32x3, ieee, config, keeps)
        source = WRITERS[variant](spec) if ways is None else write_persistent(spec, ways)
        prefixed, space = Tuning(config, tiles.space(config)).prefixed(name)
        return KernelCode(
            function=name,
            source=source,
            tensors=(product.a, product.b, *epilogue.tensors),
            returns=group.outputs,
            sizes=tuple(epilogue.sizes),
            config=prefixed,
            space=space,
            helpers=tuple(
                sorted({*epilogue.helpers, *_helpers(variant, ways, round_tf32), *(["kept_copy"] if keeps else [])})
            ),
            keeps=keeps,
            summary=f"{epilogue.formula}: one product with its tail in the epilogue, {variant}",
        )


WRITERS = {"pointer": write_pointer, "split_k": write_split_k, "vector": write_vector}
"""What writes the structures without TMA."""
TILES = {"pointer": tiles.pointer_tile, "split_k": tiles.split_k_tile, "vector": tiles.vector_tile}
"""What chooses their knobs."""


def _is_vector(graph: CapturedGraph, group: Group) -> bool:
    """Return whether b is one column, whatever the sizes."""
    product = _product_of(graph, group)
    return not product.batched and set(product.node.size(product.node.rank - 1)) == {1}


def _tile_operands(graph: CapturedGraph, epilogue: Epilogue, product: Product) -> int:
    """Count the tensors that the epilogue reads with a value for every element of the tile."""
    patterns = [dimensions(graph[name], product.node) or "" for name in epilogue.tensors]
    return sum(pattern.endswith("1") and "1" in pattern[:-1] for pattern in patterns)


def _product_of(graph: CapturedGraph, group: Group) -> Product:
    return next(p for p in (product_at(graph, node) for node in group.nodes) if p is not None)


def _multiplies_sums(graph: CapturedGraph, group: Group, precision: Precision) -> bool:
    """Return whether a product in TF32 takes each operand in two parts, which was not measured."""
    return precision in TF32 and _product_of(graph, group).node.of_sums


def _idles(graph: CapturedGraph, group: Group, target: Hardware) -> bool:
    """Return whether tiles of 128 x 256 leave more than half of the multiprocessors without one."""
    matrices, m, n, k = _product_of(graph, group).mnk(graph)
    shape = tiles.ProductShape(matrices, m, n, k, 4, target=target)
    return shape.tiles(128, 256) * 2 < shape.multiprocessors


def _starved(graph: CapturedGraph, group: Group) -> bool:
    """Return whether even small tiles leave most multiprocessors idle while each has a long sum to make."""
    matrices, m, n, k = _product_of(graph, group).mnk(graph)
    shape = tiles.ProductShape(matrices, m, n, k, 4)
    return shape.tiles(64, 64) * 4 <= shape.multiprocessors and k >= 4096


def _ways(graph: CapturedGraph, product: Product, shape: tiles.ProductShape, variant: str, round_tf32: bool) -> Ways:
    """Choose how the operands reach the tensor cores.

    At 16 bits both go straight from their own memory. fp32 operands must be rounded: `tma` rounds both on their way
    into shared memory (by a pass of their own before Triton 3.7), `tma_registers` rounds the larger one in registers.
    """
    b_is_nk = product.transposed_b or graph[product.b].stride[-2:-1] == (1,)
    if not round_tf32:
        return Ways("direct", "direct", b_is_nk)
    if variant == "tma":
        return Ways("rounded", "rounded")
    if shape.N > shape.M and b_is_nk:
        return Ways("rounded", "registers")
    return Ways("registers", "rounded")


def _tile(shape: tiles.ProductShape, variant: str, ways: Ways | None) -> dict[str, Knob]:
    if ways is not None:
        return tiles.persistent_tile(shape, ways.swapped)
    return TILES[variant](shape)


def _helpers(variant: str, ways: Ways | None, round_tf32: bool) -> set[str]:
    if ways is None:
        grouped = {"grouped_tile"} if variant == "pointer" else set()
        return grouped if variant == "vector" or not round_tf32 else grouped | {"round_to_tf32"}
    some = {"tensor_descriptor", "grouped_tile", "column_halves", "pack_rows", "round_to_tf32", "tma_ready"}
    return some | ({"tf32_descriptor"} if round_tf32 else set())

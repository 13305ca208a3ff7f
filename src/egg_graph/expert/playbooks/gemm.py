"""Matrix products with a fused pointwise epilogue: linear, matmul, mm, bmm, addmm, baddbmm."""

from egg_graph.expert.captured import CapturedGraph
from egg_graph.expert.playbook import Group, KernelCode
from egg_graph.expert.playbooks import gemm_tiles as tiles
from egg_graph.expert.playbooks.gemm_epilogue import write_epilogue
from egg_graph.expert.playbooks.gemm_match import Product, group_at, product_at
from egg_graph.expert.playbooks.gemm_parts import Parts
from egg_graph.expert.playbooks.gemm_pointer import write_pointer
from egg_graph.schema import Hardware, Precision


class GemmPlaybook:
    """`alpha * (a @ b) + beta * addend`, then any pointwise chain over the result, in one kernel."""

    name = "gemm"
    guidance = """Matrix products: keep the pointwise chain behind a product in its epilogue, while the sums are in registers.
Under TF32 round both operands to nearest before the tensor cores, which would truncate: truncation is a bias.
On Hopper the fastest structure is one program per multiprocessor, operands by TMA, tiles of 128 x 256 x 32 (fp32) or
128 x 256 x 64 (16 bit), 8 warps, 3 to 4 stages, the tile stored in four column chunks. wgmma takes fp32 operands only with
K contiguous: pack any other layout once. Few output tiles and a long K: split K in two deterministic passes."""
    variants = ("pointer",)

    def match(self, graph: CapturedGraph, start: str, free: frozenset[str]) -> Group | None:
        """The product at `start` with the pointwise chain that follows it."""
        return group_at(graph, self.name, start, free, self.variants[0])

    def write(
        self, graph: CapturedGraph, group: Group, name: str, precision: Precision, target: Hardware | None = None
    ) -> KernelCode:
        """Kernel, epilogue and wrapper. `target` gives the tile sizes to start from; without it those of an H200."""
        product = next(p for p in (product_at(graph, node) for node in group.nodes) if p is not None)
        epilogue = write_epilogue(graph, group, product, name)
        fp32 = product.node.dtype == "float32" and precision in ("ieee", "tf32")
        problem = _problem(graph, product, fp32, precision, target)
        config = tiles.pointer_tile(problem)
        round_tf32 = fp32 and precision == "tf32" and (target is None or target.vendor == "nvidia")
        parts = Parts(name, product, epilogue, graph[group.outputs[0]], round_tf32, fp32 and not round_tf32, config)
        helpers = {*epilogue.helpers, "grouped_tile", *(["round_to_tf32"] if round_tf32 else [])}
        return KernelCode(
            function=name,
            source=write_pointer(parts),
            tensors=(product.a, product.b, *epilogue.tensors),
            returns=group.outputs,
            sizes=tuple(epilogue.sizes),
            config={f"{name}_{knob}": value for knob, value in config.items()},
            space={
                stage: {f"{name}_{knob}": values for knob, values in knobs.items()}
                for stage, knobs in tiles.space(config, problem).items()
            },
            helpers=tuple(sorted(helpers)),
            summary=f"{epilogue.formula}: one product with its tail in the epilogue",
        )


def _problem(
    graph: CapturedGraph, product: Product, fp32: bool, precision: Precision, target: Hardware | None
) -> tiles.Problem:
    matrices, m, n, k = product.mnk(graph)
    return tiles.Problem(matrices, m, n, k, 4 if fp32 else 2, fp32 and precision == "ieee", target)

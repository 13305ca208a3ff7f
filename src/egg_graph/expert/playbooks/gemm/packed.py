"""Products with weights that are unpacked from bytes: the kernel reads the bytes, and no unpacked weight is written."""

from egg_graph.expert.capture.graph import CapturedGraph, Node, node_name
from egg_graph.expert.codegen.expressions import is_pointwise
from egg_graph.expert.codegen.fusion import Body, is_joinable, is_moving
from egg_graph.expert.codegen.group import Group, KernelCode, Tuning
from egg_graph.expert.codegen.indexing import Index, Run, Unfusable
from egg_graph.expert.codegen.launch import Wrapper, call, kernel
from egg_graph.expert.playbooks.gemm.match import Product, product_at
from egg_graph.expert.playbooks.knobs import half_and_double, power_of_two
from egg_graph.expert.playbooks.playbook import Playbook
from egg_graph.schema import Hardware, Precision

NARROW = ("bfloat16", "float16")
"""Dtypes of the products: tensor cores take what was unpacked as it is."""
HALVES = tuple(Index(f"(2 * packed_at + {half})", "in_tile", tile=True) for half in (0, 1))
"""Every second weight of a row, and the others: a byte holds one of each."""
BYTES = Index("packed_at", "in_tile", tile=True)
GROUPS = Index("group_at", "in_group", tile=True)
OUTPUTS = Index("cols[:, None]", "in_cols")
CASTS = ("_to_copy", "to", "convert_element_type")


class PackedPlaybook(Playbook):
    """Products whose weight is computed from bytes with two numbers each: shifted, scaled by group, multiplied."""

    name = "packed"
    operators = frozenset({"__rshift__", "bitwise_right_shift"})
    guidance = (
        "Weights of four bits: a decoding batch is memory-bound, so read the bytes and unpack them in registers inside "
        "the product; a pass that writes 16-bit weights moves nine times as much. Interleave nothing: the sum over k "
        "may run in any order, so multiply the low halves of the bytes with every second activation and the high "
        "halves with the others, as two tl.dot into one accumulator, the activations split once beforehand. Put the "
        "unpacked weights first in tl.dot, [BLOCK_N, pairs], so that they stay in registers. Load the scale of a group "
        "once per tile: BLOCK_K divides the group."
    )
    complexity = 6

    def match(self, graph: CapturedGraph, start: str, free: frozenset[str]) -> Group | None:
        """Group the product at `start` with all that unpacks its weight."""
        product = product_at(graph, start)
        if product is None or product.batched or product.addend is not None or product.node.dtype not in NARROW:
            return None
        nodes = _unpacking(graph, product, free)
        if not any(is_joinable(graph, graph[n]) for n in nodes):
            return None
        group = Group.of(graph, self.name, {start, *nodes})
        try:
            _PackedWriter(graph, group, product, "probe")
        except Unfusable:
            return None
        return group if group.outputs == (start,) and graph.is_convex(group.nodes) else None

    def write(
        self, graph: CapturedGraph, group: Group, name: str, precision: Precision, target: Hardware | None = None
    ) -> KernelCode:
        """Write the kernel; it computes in the product's own dtype, with sums in fp32."""
        product = next(p for p in (product_at(graph, n) for n in reversed(group.nodes)) if p is not None)
        return _PackedWriter(graph, group, product, name).code()


def _unpacking(graph: CapturedGraph, product: Product, free: frozenset[str]) -> set[str]:
    """Return the nodes that compute the weight from what the forward is given; none where others need one of them."""
    found: set[str] = set()
    frontier = [product.b]
    while frontier:
        name = frontier.pop()
        if graph.is_placeholder(name) or name in found:
            continue
        node = graph[name]
        known = is_pointwise(node) or is_moving(node, graph) or is_joinable(graph, node) or _is_transpose(node)
        if not known or name not in free:
            return set()
        found.add(name)
        frontier.extend(node.inputs)
    return found


def _is_transpose(node: Node) -> bool:
    """Return whether a node swaps the dimensions of a matrix."""
    if node.base == "permute":
        return node.rank == 2 and node.args[1] == [1, 0]
    return node.base == "t" or (node.base == "transpose" and node.rank == 2)


class _Unpacked(Body):
    """Computes a tile of weights, [BLOCK_N, pairs], for one half of the bytes."""

    rows: tuple[int, ...] = ()
    """Rows of the weight."""
    group: tuple[int, ...] = ()
    """Neighbours in a row that share a scale; nothing where none do."""

    def project_special(self, pattern: tuple[Run, ...], index: Index) -> Index | None:
        if index not in HALVES or len(pattern) != 2 or not pattern[0][0] or pattern[1][0]:
            raise Unfusable("an operand is neither by group nor by row")
        (_, rows), (_, size) = pattern
        if rows == self.rows:
            return OUTPUTS
        if self.group not in ((), size):
            raise Unfusable("operands have groups of several sizes")
        self.group = size
        return GROUPS

    def _compute(self, node: Node, index: Index) -> str:
        if node.base in CASTS and node.is_float and self.graph[node.inputs[0]].dtype == "uint8":
            self.helpers.add("byte_to_float")
            return self.assign(node.name, f"byte_to_float({self.value(node.inputs[0], index)})", index)
        return super()._compute(node, index)

    def _joined(self, node: Node, index: Index) -> str:
        parts = [node_name(part) for part in node.args[0]] if isinstance(node.args[0], list) else []
        dim = int(node.args[1]) if len(node.args) > 1 and isinstance(node.args[1], int) else 0
        halves = len(parts) == 2 and dim % node.rank == node.rank - 1
        if index not in HALVES or not halves or any(set(self.graph[p].size(-1)) != {1} for p in parts):
            raise Unfusable(f"{node.name} joins something else than the halves of bytes")
        return self.value(parts[HALVES.index(index)], BYTES)


class _PackedWriter:
    """Writes the kernel and its wrapper.

    Raises:
        Unfusable: if the weight is computed in another way than byte by byte.
    """

    def __init__(self, graph: CapturedGraph, group: Group, product: Product, name: str) -> None:
        self.graph, self.group, self.name = graph, group, name
        self.a, self.node = product.a, product.node
        weight = product.b
        transposed = product.transposed_b
        while _is_transpose(graph[weight]):
            weight, transposed = graph[weight].inputs[0], not transposed
        shapes = graph[weight].shapes
        if not transposed or len(shapes[0]) != 2 or any(s[1] % 2 for s in shapes):
            raise Unfusable("the weight's rows are not of two numbers to a byte")
        self.k = graph[weight].size(1)
        self.body = _Unpacked(graph, frozenset(group.nodes), fill=True)
        self.body.rows = graph[weight].size(0)
        self.body.label(self.a)
        self.body.reserve(
            ("packed_at", "group_at", "in_tile", "in_group", "in_cols", "in_pairs", "acc", "pairs", "x_0")
        )
        self.body.roots.append(self.a)
        self.values = [self.body.value(weight, half) for half in HALVES]
        if self.body.numbers or not self.body.roots[1:]:
            raise Unfusable("a number follows from sizes")
        self.wrapper = Wrapper(graph, self.body, name)

    def code(self) -> KernelCode:
        rows = self.node.numel[0] // self.node.shape[-1]
        block_m = power_of_two(rows, 16, 64)
        tuning = Tuning(
            {"BLOCK_M": block_m, "BLOCK_N": 128, "BLOCK_K": 128, "num_warps": 8, "num_stages": 4},
            {
                "parallel_mapping": {"num_warps": (4, 8)},
                "tensor_tiling": {
                    "BLOCK_M": half_and_double(block_m, 16, 128), "BLOCK_N": (64, 128), "BLOCK_K": (64, 128, 256),
                },
                "memory_optimization": {"num_stages": (3, 4, 5)},
            },
        )  # fmt: skip
        sources = (self._kernel(), self._wrapper())
        return self.wrapper.code((self.node.name,), sources, tuning, "a product that unpacks its weights in registers")

    def _kernel(self) -> str:
        body = self.body
        size = body.size(body.group) if body.group else "2"
        arguments = [
            "x_ptr", *(f"{body.label(r)}_ptr" for r in body.roots[1:]), "out_ptr", "M", "N", "K",
            *(f"{s}: tl.constexpr" for s in body.sizes.values()),
            *(f"{c}: tl.constexpr" for c in ("BLOCK_M", "BLOCK_N", "BLOCK_K", "STAGES", "WHOLE", "WIDE")),
        ]  # fmt: skip
        groups = [
            f"if WHOLE:  # a tile lies in one group of {size}",
            f"    group_at = (cols * (K // {size}))[:, None] + start // {size}",
            "    in_group = in_cols",
            "else:",
            f"    group_at = (2 * packed_at) // {size}",
            "    in_group = in_tile",
        ]  # fmt: skip
        loop = [
            "pairs = start // 2 + tl.arange(0, BLOCK_K // 2)",
            "in_pairs = pairs < K // 2",
            "packed_at = (cols * (K // 2))[:, None] + pairs[None, :]",
            "in_tile = in_cols & in_pairs[None, :]",
            *(groups if body.group else []),
            *body.lines,
            "x_ptrs = x_ptr + (rows * (K // 2))[None, :] + pairs[:, None]",
            "x_0 = tl.load(x_ptrs, mask=in_rows & in_pairs[:, None], other=0.0)",
            "x_1 = tl.load(x_ptrs + M * (K // 2), mask=in_rows & in_pairs[:, None], other=0.0)",
            f"acc = tl.dot({self.values[0]}.to(x_0.dtype), x_0, acc)",
            f"acc = tl.dot({self.values[1]}.to(x_1.dtype), x_1, acc)",
        ]
        lines = [
            "tiles_m = tl.cdiv(M, BLOCK_M)",
            "rows = tl.program_id(0) % tiles_m * BLOCK_M + tl.arange(0, BLOCK_M)",
            "cols = tl.program_id(0) // tiles_m * BLOCK_N + tl.arange(0, BLOCK_N)",
            "if WIDE:  # offsets need 64 bits",
            "    rows = rows.to(tl.int64)",
            "    cols = cols.to(tl.int64)",
            "in_rows = (rows < M)[None, :]",
            "in_cols = (cols < N)[:, None]",
            "acc = tl.zeros((BLOCK_N, BLOCK_M), dtype=tl.float32)",
            "for start in tl.range(0, K, BLOCK_K, num_stages=STAGES):",
            *(f"    {line}" for line in loop),
            "out_ptrs = out_ptr + (rows * N)[None, :] + cols[:, None]",
            "tl.store(out_ptrs, acc.to(out_ptr.dtype.element_ty), mask=in_rows & in_cols)",
        ]
        doc = "out = x times the weight transposed. x is [2, M, K // 2]: every second column, and the others."
        return kernel(f"{self.name}_kernel", arguments, doc, lines)

    def _wrapper(self) -> str:
        wrapper, body, name = self.wrapper, self.body, self.name
        x = body.label(self.a)
        wrapper.know("K", self.k)
        knob = {k: f'CONFIG["{name}_{k}"]' for k in ("BLOCK_M", "BLOCK_N", "BLOCK_K", "num_warps", "num_stages")}
        n = wrapper.size(self.node.size(-1))
        whole = f"{wrapper.size(body.group)} % {knob['BLOCK_K']} == 0" if body.group else "True"
        lines = [
            f"K, N = {x}.shape[-1], {n}",
            f"M = {x}.numel() // K",
            f"halves = {x}.view(M, K // 2, 2).permute(2, 0, 1).contiguous()",
            f"out = torch.empty((*{x}.shape[:-1], N), device={x}.device, dtype={x}.dtype)",
            f"grid = (triton.cdiv(M, {knob['BLOCK_M']}) * triton.cdiv(N, {knob['BLOCK_N']}),)",
        ]
        arguments = [
            "halves", *(body.label(r) for r in body.roots[1:]), "out", "M", "N", "K", *wrapper.constants(),
            *(f"{k}={knob[k]}" for k in ("BLOCK_M", "BLOCK_N", "BLOCK_K")), f"STAGES={knob['num_stages']}",
            f"WHOLE={whole}", "WIDE=max(M, N) * K >= 2**31", f"num_warps={knob['num_warps']}",
        ]  # fmt: skip
        lines += [*call(f"{name}_kernel[grid]", arguments, indent=4), "return out"]
        return wrapper.function("x times a weight that is unpacked from bytes.", lines)

"""Cumulative sums and products along any dimension, from either end, with pointwise work before and after."""

from math import prod

from egg_graph.expert.capture.graph import CapturedGraph, Node
from egg_graph.expert.codegen.expressions import triton_dtype
from egg_graph.expert.codegen.group import Group, KernelCode, Tuning
from egg_graph.expert.playbooks.knobs import power_of_two
from egg_graph.expert.playbooks.playbook import Alternative, Playbook
from egg_graph.expert.playbooks.scan.body import ScanBody, ScanBodyWriter
from egg_graph.expert.playbooks.scan.kernels import KERNELS, LAUNCHES
from egg_graph.expert.playbooks.scan.match import Scan, group_of, scan_at
from egg_graph.expert.playbooks.survey import survey_of
from egg_graph.schema import Hardware, Knob, Precision

SHORTEST_IN_PIECES, LONGEST_IN_PIECES = 2048, 65536
"""Row lengths between which one program should hold the whole row at once, in pieces, where rows are few."""
MANY_ROWS = 2048
"""Rows from which on short blocks with a carry fill the machine, with less to wait for than a whole row."""


class ScanPlaybook(Playbook):
    """cumsum and cumprod: one read and one write of the tensor."""

    name = "scan"
    guidance = (
        "Scans: read and write each number once. Many rows: a program a row, in blocks of 2048 with a carry, 3 stages "
        "to keep loads in flight. Few rows: hold each whole in registers as pieces, scan inside each piece, then add "
        "the exclusive sum of the pieces' totals (16 x 2048 on 16 warps for a row of 32768 on an H200). An exclusive "
        "sum reads the number before each: no copy without the last, no concatenation. Along another dimension "
        "than the last, scan neighbouring columns side by side, so that loads stay contiguous."
    )
    operators = frozenset({"cumsum", "cumprod"})
    variants = ("pieces", "rows", "columns")
    alternatives = (
        Alternative(
            "rows", "algorithm_replacement", "blocks with a carry need fewer registers", ("scan_whole_row",),
            saves_registers=True,
        ),
        Alternative(
            "pieces", "algorithm_replacement", "a row held whole needs no carry from block to block",
            ("scan_whole_row",),
        ),
    )  # fmt: skip
    complexity = 5

    def match(self, graph: CapturedGraph, start: str, free: frozenset[str]) -> Group | None:
        """Group the scan at `start` with its flips and with pointwise nodes that only it reads or that follow it."""
        scan = scan_at(graph, start, free)
        return None if scan is None else group_of(graph, scan, self.name, structures(scan)[0])

    def structures(self, graph: CapturedGraph, group: Group, target: Hardware | None = None) -> tuple[str, ...]:
        """Return what fits the group's scan."""
        return structures(_scan(graph, group))

    def measured(self, graph: CapturedGraph, group: Group, precision: Precision, target: Hardware) -> str:
        """Return the survey, which the choice by the number of rows stands on."""
        return survey_of(graph, group, precision, target)

    def write(
        self, graph: CapturedGraph, group: Group, name: str, precision: Precision, target: Hardware | None = None
    ) -> KernelCode:
        """Write kernel and wrapper. Sums and products of floats are in fp32."""
        scan = _scan(graph, group)
        structure = group.variant if group.variant in structures(scan) else structures(scan)[0]
        body = ScanBodyWriter(graph, scan, "1" if scan.is_product else "0", structure).write()
        config, space = _tuning(graph[scan.result], scan, structure).prefixed(name)
        return KernelCode(
            function=name,
            source=_kernel(scan, body, structure, name) + "\n\n" + _wrapper(graph, group, scan, body, structure, name),
            tensors=tuple(dict.fromkeys(body.tensors)),
            returns=group.outputs,
            sizes=tuple(body.sizes),
            config=config,
            space=space,
            helpers=tuple(sorted(body.helpers)),
            summary=f"{scan.node.base} along dimension {scan.dim} in one pass, {structure}",
        )


def _scan(graph: CapturedGraph, group: Group) -> Scan:
    """Return the scan of a group that `match` made."""
    anchor = next(node for node in group.nodes if graph[node].base in ("cumsum", "cumprod"))
    scan = scan_at(graph, anchor, frozenset(group.nodes))
    assert scan is not None, "a group made by match"
    return scan


def structures(scan: Scan) -> tuple[str, ...]:
    """Return the structures that fit this scan, the best first."""
    if scan.dim != scan.node.rank - 1:
        return ("columns",)
    if scan.is_product or scan.is_integer or scan.node.shape[-1] < SHORTEST_IN_PIECES:
        return ("rows",)
    few = prod(scan.node.shape[:-1]) < MANY_ROWS
    return ("pieces", "rows") if few and scan.node.shape[-1] <= LONGEST_IN_PIECES else ("rows", "pieces")


def _manner(scan: Scan) -> str:
    """Tell what is unusual about a scan."""
    return ", from the end" if scan.reverse else ", each without its own number" if scan.exclusive else ""


def _kernel(scan: Scan, body: ScanBody, structure: str, name: str) -> str:
    kind = triton_dtype(scan.node.dtype)
    end = "0" if scan.reverse else "BLOCK - 1"
    axis, pick = (0, "[:, None]") if structure == "columns" else (1, "[None, :]")
    last = f"tl.sum(tl.where((tl.arange(0, BLOCK) == {end}){pick}, scan, 0), {axis})  # the last number scanned"
    return KERNELS[structure].format(
        name=name,
        pointers=", ".join(f"{variable}_ptr" for variable in [*dict.fromkeys(body.variables), "out"]),
        numbers="".join(f" {number}," for number in body.numbers),
        dtype=kind,
        neutral="1" if scan.is_product else "0",
        round="(rounds - 1 - i)" if scan.reverse else "i",
        static_round="(ROUNDS - 1 - i)" if scan.reverse else "i",
        reverse=", reverse=True" if scan.reverse else "",
        side="after" if scan.reverse else "before",
        first="PIECES - 1" if scan.reverse else "0",
        neighbour="tl.minimum(piece + 1, PIECES - 1)" if scan.reverse else "tl.maximum(piece - 1, 0)",
        word="product" if scan.is_product else "sum",
        function=scan.node.base,
        operator="*" if scan.is_product else "+",
        last=last,
        load="\n".join(f"        {line}" for line in body.load),
        store="\n".join(f"        {line}" for line in body.store),
    )


def _wrapper(graph: CapturedGraph, group: Group, scan: Scan, body: ScanBody, structure: str, name: str) -> str:
    variables = list(dict.fromkeys(body.variables))
    output, model = graph[group.outputs[0]], body.whole[0]
    is_same = output.dtype == graph[body.tensors[body.variables.index(model)]].dtype
    dtype = f"{model}.dtype" if is_same else f"torch.{output.dtype}"
    lines = [
        f'"""{scan.node.base} along dimension {scan.dim}{_manner(scan)}."""',
        f"shape = {model}.shape",
        f"n = shape[{scan.dim}]",
        *[f"{variable} = {variable}.contiguous()" for variable in dict.fromkeys(body.whole)],
        f"out = torch.empty(shape, device={model}.device, dtype={dtype})",
    ]
    if structure == "columns":
        lines += [f"inner = shape[{scan.dim + 1}:].numel()", "rows = out.numel() // (n * inner)"]
    else:
        lines.append("rows = out.numel() // n")
    launch = LAUNCHES[structure].format(
        name=name,
        per_thread=32 if scan.before or scan.after or scan.reverse else 64,
        arguments=", ".join([*variables, "out"]),
        numbers="".join(f" {number}," for number in body.numbers),
    )
    head = f"def {name}({', '.join([*variables, *body.numbers])}):\n"
    return head + "".join(f"    {line}\n" for line in lines) + launch + "    return out\n"


def _tuning(whole: Node, scan: Scan, structure: str) -> Tuning:
    """Choose knobs for a scan over a node's shape."""
    n = whole.shape[scan.dim]
    if structure == "pieces":
        warps = 16 if n > 16384 else 8 if n > 4096 else 4
        pieces = 32 if n <= 16384 else 64 if scan.reverse else 16  # from the end, 16 long ones spill
        config: dict[str, Knob] = {"PIECES": pieces, "num_warps": warps}
        return Tuning(
            config,
            {
                "parallel_mapping": {"num_warps": tuple(dict.fromkeys((warps // 2, warps, min(32, 2 * warps))))},
                "tensor_tiling": {"PIECES": (16, 32, 64, 128)},
            },
        )
    if structure == "rows":
        block = power_of_two(n, 16, 1024 if n <= 1024 else 2048)
        config = {"ROWS": max(1, 2048 // block), "BLOCK": block, "num_warps": 4, "num_stages": 3}
        tiling: dict[str, tuple[Knob, ...]] = {
            "ROWS": tuple(dict.fromkeys((1, max(1, 2048 // block), max(1, 4096 // block)))),
            "BLOCK": tuple(dict.fromkeys((max(16, block // 2), block))),
        }
    else:
        inner = 1
        for size in whole.shape[scan.dim + 1 :]:
            inner *= size
        config = {"BLOCK": 32, "COLUMNS": power_of_two(inner, 16, 64), "num_warps": 4, "num_stages": 3}
        tiling = {"BLOCK": (16, 32, 64), "COLUMNS": (16, 32, 64, 128)}
    return Tuning(
        config,
        {
            "parallel_mapping": {"num_warps": (2, 4, 8)},
            "tensor_tiling": tiling,
            "memory_optimization": {"num_stages": (1, 2, 3, 4)},
        },
    )

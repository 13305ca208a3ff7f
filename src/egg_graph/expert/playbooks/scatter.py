"""Rows of a tensor replaced by others at given places (index_copy): one pass, every row is written once."""

from math import prod

from egg_graph.expert.capture.graph import CapturedGraph, Node, node_name
from egg_graph.expert.codegen.group import Group, KernelCode, Tuning
from egg_graph.expert.codegen.launch import call, kernel
from egg_graph.expert.playbooks.knobs import half_and_double, power_of_two
from egg_graph.expert.playbooks.playbook import Playbook
from egg_graph.schema import Hardware, Precision

MOST_COMPARISONS = 2**29
"""Pairs of a row and a new row, up to which comparing all of them hides behind the copy of the rows."""
DTYPES = ("float32", "bfloat16", "float16", "int64", "int32", "int16", "int8", "uint8")


class ScatterPlaybook(Playbook):
    """index_copy along the first dimension; several with the same places, as of keys and values, share one kernel."""

    name = "scatter"
    operators = frozenset({"index_copy"})
    guidance = (
        "A cache with some rows replaced, returned as a copy: PyTorch copies all rows and writes the new over some, "
        "for keys and for values apart, in four launches. One kernel does it: each program owns some rows of the "
        "result, compares their numbers with all places (a few thousand integers, from L2), and reads each row from "
        "where it comes; the comparisons hide behind the copy. Every row is written once, by one program, so that of "
        "equal places the last wins every time, without atomics. Caches with the same places share the search."
    )
    complexity = 2

    def match(self, graph: CapturedGraph, start: str, free: frozenset[str]) -> Group | None:
        """Group the index_copy at `start` with all later ones that have its places and shapes."""
        if not _is_row_copy(graph, graph[start]):
            return None
        like = [n for n in graph.nodes if n.name in free and _is_row_copy(graph, n) and _same(graph, n, graph[start])]
        nodes = {n.name for n in like}
        group = Group.of(graph, self.name, nodes if graph.is_convex(nodes) else {start})
        return group if set(group.outputs) == set(group.nodes) else None

    def write(
        self, graph: CapturedGraph, group: Group, name: str, precision: Precision, target: Hardware | None = None
    ) -> KernelCode:
        """Write kernel and wrapper; elements are moved as they are."""
        copies = [graph[n] for n in group.nodes]
        place = node_name(copies[0].args[2])
        tensors = [place, *(node_name(n.args[i]) for n in copies for i in (0, 3))]
        block = power_of_two(prod(copies[0].shape[1:]), 16, 512)
        config, space = Tuning(
            {"ROWS": 16, "BLOCK": block, "PICKS": 128, "num_warps": 8},
            {
                "parallel_mapping": {"num_warps": (4, 8)},
                "tensor_tiling": {"ROWS": (8, 16, 32), "BLOCK": half_and_double(block, 16, 1024), "PICKS": (64, 128)},
            },
        ).prefixed(name)
        return KernelCode(
            function=name,
            source="\n\n".join((_kernel(name, len(copies)), _wrapper(name, len(copies)))),
            tensors=tuple(tensors),
            returns=tuple(n.name for n in copies),
            config=config,
            space=space,
            summary=f"{len(copies)} copies with rows replaced, in one pass",
        )


def _is_row_copy(graph: CapturedGraph, node: Node) -> bool:
    """Return whether a node replaces whole rows of a tensor, few enough to search among."""
    if node.op != "aten.index_copy.default" or node.args[1] != 0 or node.rank < 1 or node.dtype not in DTYPES:
        return False
    places = graph[node_name(node.args[2])]
    return places.rank == 1 and node.shape[0] * places.shape[0] <= MOST_COMPARISONS


def _same(graph: CapturedGraph, one: Node, other: Node) -> bool:
    """Return whether two copies have the same places and shapes."""
    return one.args[2] == other.args[2] and one.shapes == other.shapes


def _kernel(name: str, copies: int) -> str:
    parts = [f"{what}_{i}_ptr" for i in range(copies) for what in ("old", "new", "out")]
    arguments = ["places_ptr", *parts, "n_rows", "n_cols", "n_new"]
    moves = []
    for i in range(copies):
        moves += [
            f"    kept = tl.load(old_{i}_ptr + at, mask=mask & ~is_new, other=0)",
            f"    row = tl.load(new_{i}_ptr + source * n_cols + cols, mask=mask & is_new, other=kept)",
            f"    tl.store(out_{i}_ptr + at, row, mask=mask)",
        ]
    lines = [
        "rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)",
        "last = tl.full([ROWS, PICKS], -1, tl.int32)",
        "for start in tl.range(0, n_new, PICKS):",
        "    picks = start + tl.arange(0, PICKS)",
        "    places = tl.load(places_ptr + picks, mask=picks < n_new, other=-1).to(tl.int32)",
        "    last = tl.where(rows[:, None] == places[None, :], picks[None, :], last)",
        "found = tl.max(last, axis=1)",
        "is_new = (found >= 0)[:, None]",
        "source = found.to(tl.int64)[:, None]",
        "row_mask = (rows < n_rows)[:, None]",
        "for start in tl.range(0, n_cols, BLOCK):",
        "    cols = start + tl.arange(0, BLOCK)[None, :]",
        "    mask = row_mask & (cols < n_cols)",
        "    at = rows.to(tl.int64)[:, None] * n_cols + cols",
        *moves,
    ]
    constants = [f"{c}: tl.constexpr" for c in ("ROWS", "BLOCK", "PICKS")]
    doc = "ROWS rows of every result: each from `new` where a place names it, the last such, else from `old`."
    return kernel(f"{name}_kernel", [*arguments, *constants], doc, lines)


def _wrapper(name: str, copies: int) -> str:
    given = [f"{what}_{i}" for i in range(copies) for what in ("old", "new")]
    lines = [f"{x} = {x}.contiguous()" for x in ("places", *given)]
    lines += [f"out_{i} = torch.empty_like(old_{i})" for i in range(copies)]
    lines += ["n_rows, n_new = old_0.shape[0], places.shape[0]", "n_cols = old_0.numel() // n_rows"]
    parts = [f"{what}_{i}" for i in range(copies) for what in ("old", "new", "out")]
    knobs = [f'{k}=CONFIG["{name}_{k}"]' for k in ("ROWS", "BLOCK", "PICKS", "num_warps")]
    grid = f'{name}_kernel[(triton.cdiv(n_rows, CONFIG["{name}_ROWS"]),)]'
    lines += call(grid, ["places", *parts, "n_rows", "n_cols", "n_new", *knobs], indent=4)
    lines.append(f"return {', '.join(f'out_{i}' for i in range(copies))}")
    head = "\n".join(call(f"def {name}", ["places", *given], ":"))
    body = "\n".join(f"    {line}" for line in lines)
    return f'{head}\n    """Copies of `old` with the rows of `new` at their places."""\n{body}\n'

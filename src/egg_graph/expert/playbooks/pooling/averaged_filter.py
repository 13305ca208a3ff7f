"""The averages of a filter, padded with zeros and perhaps turned round: one small kernel without knobs.

`egg_graph.expert.capture.fold_pooling` leaves them behind: they are computed in every call, and one launch is most of
what they take.
"""

from dataclasses import dataclass

from egg_graph.expert.capture.average import Average, Numbers, average_at, is_private
from egg_graph.expert.capture.graph import CapturedGraph, Node, Placeholder, by_dimension
from egg_graph.expert.codegen.group import KernelCode
from egg_graph.expert.codegen.launch import call, kernel

BLOCK = 256
MOST_UNROLLED = 64
"""Taps of a window up to which its loads are unrolled."""


@dataclass(frozen=True)
class AveragedFilter:
    """Averages over the last dimensions of a parameter [N, C, *taps], or of [C, N, *taps] where `turned`."""

    average: Average
    weight: str
    nodes: tuple[str, ...]
    """In execution order."""
    before: Numbers
    """Zeros put before the taps, by dimension and capture; negative where taps are cut off."""
    after: Numbers
    turned: bool
    """Whether every dimension of taps runs backwards, and the first two change places."""


def averaged_filter_at(graph: CapturedGraph, name: str) -> AveragedFilter | None:
    """Return the filter whose averages end at a node; None where they are of no parameter, or of it as it lies."""
    average = average_at(graph, graph[name])
    if average is None or graph[name].dtype != "float32":
        return None
    rank, source, nodes = average.rank, average.x, [name]
    around = ((0,) * len(source.shapes),) * (2 * rank)
    if source.op == "aten.constant_pad_nd.default" and is_private(graph, source):
        found = by_dimension(source.args[1], 2 * rank, len(source.shapes), 0)
        if found is None or len(found) != 2 * rank or len(source.args) > 2:
            return None
        around, nodes, source = found, [source.name, *nodes], graph[source.inputs[0]]
    flip = _turned(graph, source, rank)
    if flip is not None:
        nodes, source = [flip.name, source.name, *nodes], graph[flip.inputs[0]]
    if len(nodes) == 1 or not isinstance(source, Placeholder) or source.kind != "parameter":
        return None
    before, after = tuple(reversed(around[::2])), tuple(reversed(around[1::2]))
    return AveragedFilter(average, source.name, tuple(nodes), before, after, flip is not None)


def _turned(graph: CapturedGraph, view: Node, rank: int) -> Node | None:
    """Return the flip of all taps behind a view that exchanges the first two dimensions; None where it is another."""
    if view.op != "aten.transpose.int" or list(view.args[1:]) != [0, 1] or not is_private(graph, view):
        return None
    flip = graph[view.inputs[0]]
    whole = flip.base == "flip" and flip.args[1] == [d + 2 for d in range(rank)]
    return flip if whole and is_private(graph, flip) else None


def write_averaged_filter(found: AveragedFilter, name: str) -> KernelCode:
    """Write kernel and wrapper."""
    words = "the averages of a filter's windows, zeros beyond its taps" + (", turned round" if found.turned else "")
    return KernelCode(
        function=name,
        source=f"{_kernel(found, name, words)}\n\n{_wrapper(found, name, words)}",
        tensors=(found.weight,),
        returns=(found.nodes[-1],),
        sizes=tuple(values for _, values in _varying(found)),
        summary=words,
    )


def _numbers(found: AveragedFilter) -> list[tuple[str, tuple[int, ...]]]:
    """Name each number of each dimension."""
    named = (("q", found.average.window), ("step", found.average.stride), ("before", found.before))
    kinds = (*named, ("after", found.after))
    return [(f"{kind}_{d}", values) for kind, numbers in kinds for d, values in enumerate(numbers)]


def _varying(found: AveragedFilter) -> list[tuple[str, tuple[int, ...]]]:
    return [(label, values) for label, values in _numbers(found) if len(set(values)) > 1]


def _names(found: AveragedFilter) -> list[str]:
    dims = range(found.average.rank)
    return ["FIRST", "SECOND", *(f"{kind}_{d}" for kind in ("T", "OUT", "Q", "STEP", "BEFORE") for d in dims)]


def _kernel(found: AveragedFilter, name: str, words: str) -> str:
    dims = range(found.average.rank)
    few = all(_window(found, capture) <= MOST_UNROLLED for capture in range(len(found.average.node.shapes)))
    lines = ["i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)", "left = i"]
    for d in reversed(dims):
        lines += [f"o_{d} = left % OUT_{d}", f"left = left // OUT_{d}"]
    if found.turned:
        lines.append("left = left % FIRST * SECOND + left // FIRST")
    lines.append("total = tl.zeros((BLOCK,), dtype=tl.float32)")
    indent, place = "", "left"
    for d in dims:
        lines.append(f"{indent}for j_{d} in {'tl.static_range' if few else 'range'}(Q_{d}):")
        indent += "    "
        tap = f"o_{d} * STEP_{d} + j_{d} - BEFORE_{d}"
        lines.append(f"{indent}t_{d} = {f'T_{d} - 1 - ({tap})' if found.turned else tap}")
        place = f"({place}) * T_{d} + t_{d}"
    real = " & ".join(f"(t_{d} >= 0) & (t_{d} < T_{d})" for d in dims)
    count = " * ".join(f"Q_{d}" for d in dims)
    lines += [
        f"{indent}total += tl.load(w_ptr + {place}, mask=(i < numbers) & {real}, other=0.0)",
        f"tl.store(out_ptr + i, total / ({count}), mask=i < numbers)",
    ]
    constants = [f"{label}: tl.constexpr" for label in (*_names(found), "BLOCK")]
    return kernel(
        f"{name}_kernel", ["w_ptr", "out_ptr", "numbers", *constants], f"{words[0].upper()}{words[1:]}.", lines
    )


def _window(found: AveragedFilter, capture: int) -> int:
    """Return how many taps a window has."""
    count = 1
    for sizes in found.average.window:
        count *= sizes[capture]
    return count


def _wrapper(found: AveragedFilter, name: str, words: str) -> str:
    dims, varying = range(found.average.rank), [label for label, _ in _varying(found)]
    outs = ", ".join(f"out_{d}" for d in dims)
    places = [f"T_{d}=weight.shape[{d + 2}]" for d in dims] + [f"OUT_{d}=out_{d}" for d in dims]
    places += [f"{kind.upper()}_{d}={kind}_{d}" for kind in ("q", "step", "before") for d in dims]
    first, second = ("second", "first") if found.turned else ("first", "second")
    lines = [
        *call(f"def {name}", ["weight", *varying], ":"),
        f'    """{words[0].upper()}{words[1:]}."""',
        *(f"    {label} = {values[0]}" for label, values in _numbers(found) if label not in varying),
        "    weight = weight.contiguous()",
        "    first, second = weight.shape[0], weight.shape[1]",
        *(f"    out_{d} = (weight.shape[{d + 2}] + before_{d} + after_{d} - q_{d}) // step_{d} + 1" for d in dims),
        f"    out = torch.empty(({first}, {second}, {outs}), device=weight.device, dtype=weight.dtype)",
    ]
    arguments = [
        "weight",
        "out",
        "out.numel()",
        "FIRST=first",
        "SECOND=second",
        *places,
        f"BLOCK={BLOCK}",
        "num_warps=4",
    ]
    launch = call(f"{name}_kernel[(triton.cdiv(out.numel(), {BLOCK}),)]", arguments, indent=4)
    return "\n".join([*lines, *(f"    {line}" for line in launch), "    return out"]) + "\n"

"""Write the body of a fused kernel: from nodes of a graph to straight-line Triton over one tile.

A flat, row-major index into the tensor that the kernel runs over addresses the tile's elements. Views that keep that
order (`view`, `unsqueeze`, …) need no code, and the index of a broadcast operand or a slice is an arithmetic function
of it (`offsets // HW % C`). Statements are written on demand, from the outputs back: `value(name, index)`.
"""

import re
from collections.abc import Collection, Iterable
from math import prod

from pydantic import JsonValue

from egg_graph.expert.capture.graph import MOST_PARTS, VIEWS, CapturedGraph, Node, Placeholder, node_name, vector
from egg_graph.expert.codegen.expressions import expression, is_pointwise, literal
from egg_graph.expert.codegen.helpers import HELPERS
from egg_graph.expert.codegen.indexing import SCALAR, Index, Run, Unfusable, Vector, runs

KERNEL_NAMES = frozenset(HELPERS) | {
    "tl", "triton", "pid", "offsets", "mask", "rows", "cols", "row_mask", "col_mask", "outer", "inner", "steps",
    "blocks", "inner_mask", "step_mask", "start", "n_elements", "n_rows", "n_cols", "n_outer", "n_inner", "n_steps",
    "block", "lanes", "lane_mask", "count", "one_of", "first", "last", "width", "piece", "n_pieces", "where",
    "span", "tile", "within", "per_span", "n_tiles", "share", "FOLD",
}  # fmt: skip
"""Names that the kernel templates use."""
WRAPPER_NAMES = frozenset(
    {"torch", "triton", "out", "CONFIG", "grid", "n_elements", "n_rows", "n_cols", "n_outer", "n_inner", "n_steps",
     "block", "partial", "programs", "blocks", "pieces", "width", "n_lines", "lanes", "fold", "out_d", "out_h", "out_w",
     "n_samples", "n_channels", "n_pixels", "groups", "vector", "aligned", "halves", "M", "N", "K"}
)  # fmt: skip


class Body:
    """Writes one kernel's statements. Subclasses add what they know of their tile (`project_special`, `reduce`)."""

    def __init__(self, graph: CapturedGraph, nodes: frozenset[str], fill: bool = False) -> None:
        self.graph = graph
        self.inside = nodes
        self.fill = fill
        """Whether masked lanes are loaded as 0 (they enter a reduction) or left undefined (they are never stored)."""
        self.lines: list[str] = []
        self.before: list[str] | None = None
        """The lines ahead of the loop while a loop is written, else None."""
        self.helpers: set[str] = set()
        self.labels: dict[str, str] = {}
        self.roots: list[str] = []
        self.sizes: dict[Vector, str] = {}
        self.numbers: dict[tuple[float, ...], str] = {}
        self._values: dict[tuple[str, Index], str] = {}
        self._lines: dict[str, tuple[str, str, Vector]] = {}
        """Indexes into a concatenation's parts: the line, the place in it, and the line's length."""
        self._variables: set[str] = set(KERNEL_NAMES)
        self._labels: set[str] = set(WRAPPER_NAMES)

    def reserve(self, names: Iterable[str]) -> None:
        """Keep names for the kernel's own statements: no other value gets them."""
        self._variables.update(names)

    def share_labels(self, other: "Body") -> None:
        """Name tensors as another kernel of the same wrapper does."""
        self.labels, self._labels = other.labels, other._labels

    def label(self, name: str) -> str:
        """Return a readable, unique Python name for a tensor: `weight`, `mul_2`."""
        if name not in self.labels:
            node = self.graph[name]
            wish = node.target if isinstance(node, Placeholder) else name
            self.labels[name] = _unique(re.sub(r"\W", "_", wish), self._labels)
        return self.labels[name]

    def out(self, position: int, of: int) -> str:
        """Return the name of an output."""
        return "out" if of == 1 else f"out_{position}"

    def size(self, values: Vector) -> str:
        """Return a size as kernel text: a constant or a constexpr argument, because division by a constant is cheap."""
        if len(set(values)) == 1:
            return str(values[0])
        return self.sizes.setdefault(values, f"SIZE_{len(self.sizes)}")

    def number(self, raw: JsonValue) -> str:
        """Return a number that depends on sizes as the name of a kernel argument.

        Raises:
            Unfusable: if it is no number.
        """
        if isinstance(raw, dict) and "float" in raw:
            return literal(float(str(raw["float"])))
        if (values := vector(raw)) is not None:
            return self.numbers.setdefault(values, f"number_{len(self.numbers)}")
        raise Unfusable(f"the argument {raw!r} has no place in a kernel")

    def emit(self, line: str, index: Index | None = None) -> None:
        """Add a statement; a statement that does not depend on the loop goes ahead of it."""
        lines = self.lines if self.before is None or index is None or index.tile else self.before
        lines.append(line)

    def forget_tile(self) -> None:
        """Forget the values of a loop's tile at the loop's end."""
        self._values = {key: text for key, text in self._values.items() if not key[1].tile}

    def value(self, name: str, index: Index) -> str:
        """Return the variable that holds a tensor's elements at an index; write the statements that compute them.

        Raises:
            Unfusable: if this kernel cannot compute it.
        """
        key = (name, index)
        if key not in self._values:
            self._values[key] = self._compute(self.graph[name], index)
        return self._values[key]

    def at(self, name: str, shapes: tuple[Vector, ...], index: Index) -> str:
        """Return the variable that holds an operand broadcast to `shapes`, at an index into those."""
        own = self.graph[name].shapes
        return self.value(name, self.project(own, shapes, index))

    def project(self, own: tuple[Vector, ...], shapes: tuple[Vector, ...], index: Index) -> Index:
        """Return the index of a broadcast operand, from an index into the shape that it is broadcast to."""
        if own == shapes:
            return index
        pattern = runs(own, shapes)
        if all(kept for kept, _ in pattern):
            return index if pattern else SCALAR
        if not any(kept for kept, _ in pattern):
            return SCALAR
        return self.project_special(pattern, index) or self._decode(pattern, index)

    def project_special(self, pattern: tuple[Run, ...], index: Index) -> Index | None:
        """Return the tile's name for a broadcast index (its rows, its columns); None where it has none."""
        return None

    def along_lines(self, pattern: tuple[Run, ...], line: Index, length: Vector) -> Index | None:
        """Return the index of an operand that is constant along each line of the tensor; None for any other.

        Args:
            pattern: how the operand broadcasts to the tensor.
            line: the lines of the tile.
            length: elements of a line.
        """
        if len(pattern) < 2 or pattern[-1] != (False, length):
            return None
        return line if all(kept for kept, _ in pattern[:-1]) else self._decode(pattern[:-1], line)

    def reduce(self, node: Node, index: Index) -> str:
        """Return the variable that holds a reduction's result.

        Raises:
            Unfusable: if this kernel cannot compute it.
        """
        raise Unfusable(f"{node.op} is no pointwise operator")

    def _compute(self, node: Node, index: Index) -> str:
        if node.name not in self.inside:
            return self._load(node, index)
        if is_flat_view(node) or reduces_nothing(node, self.graph):
            return self.value(node.inputs[0], index)
        if (moved := self._moved(node, index)) is not None:
            return self.value(*moved)
        if node.base == "cat":
            return self._joined(node, index)
        if not is_pointwise(node):
            return self.reduce(node, index)
        text, helpers = expression(self.graph, node, lambda name: self.at(name, node.shapes, index), self.number)
        self.helpers |= helpers
        return self.assign(node.name, text, index)

    def assign(self, name: str, text: str, index: Index) -> str:
        """Write `variable = text` and return the variable's name."""
        variable = _unique(re.sub(r"\W", "_", name), self._variables)
        self.emit(f"{variable} = {text}", index)
        return variable

    def _load(self, node: Node, index: Index) -> str:
        if isinstance(node, Placeholder) and node.value is not None:
            return literal(node.value)
        if node.dtype in ("float64", "complex64", "complex128") or not node.shapes:
            raise Unfusable(f"{node.name} is {node.dtype or 'a tuple'}: kernels compute in fp32")
        if node.name not in self.roots:
            self.roots.append(node.name)
        pointer = f"{self.label(node.name)}_ptr"
        where = pointer if index is SCALAR else f"{pointer} + {index.text}"
        mask = f", mask={index.mask}" if index.mask else ""
        other = (", other=0.0" if node.is_float else ", other=0") if mask and self.fill else ""
        cast = ".to(tl.float32)" if node.is_float and node.dtype != "float32" else ""
        return self.assign(self.label(node.name), f"tl.load({where}{mask}{other}){cast}", index)

    def store(self, label: str, value: str, index: Index) -> None:
        """Write a result through the pointer of that label."""
        mask = f", mask={index.mask}" if index.mask else ""
        where = f"{label}_ptr" + ("" if index is SCALAR else f" + {index.text}")
        self.emit(f"tl.store({where}, {value}{mask})", index)

    def _decode(self, pattern: tuple[Run, ...], index: Index) -> Index:
        """Compute the flat index of a broadcast operand by division and remainder."""
        terms = []
        for place, (kept, size) in enumerate(pattern):
            if not kept:
                continue
            after = [s for _, s in pattern[place + 1 :]]
            stride = [s for k, s in pattern[place + 1 :] if k]
            text = index.text
            if after:
                text = f"{_factor(text)} // {_factor(self.size(_product(after)))}"
            if place:
                text = f"{_factor(text) if not after else text} % {self.size(size)}"
            terms.append(f"({text}) * {self.size(_product(stride))}" if stride else text)
        return self._named(" + ".join(terms), index)

    def _named(self, text: str, index: Index, name: str = "index") -> Index:
        """Assign an expression of an index to a variable, once."""
        key = (f"<{text}>", index)
        if key not in self._values:
            self._values[key] = self.assign(name, text, index)
        return Index(self._values[key], index.mask, index.tile)

    def _moved(self, node: Node, index: Index) -> tuple[str, Index] | None:
        """Return source tensor and index of an operator that only moves elements; None where it computes something."""
        graph = self.graph
        if node.base == "expand":
            source = graph[node.inputs[0]]
            return source.name, self.project(source.shapes, node.shapes, index)
        if node.base == "getitem" and graph[node.inputs[0]].base in ("split", "chunk", "split_with_sizes"):
            parts, which = graph[node.inputs[0]], node.args[1]
            assert isinstance(which, int)
            source = graph[parts.inputs[0]]
            dim = _dim(parts, 2, source.rank)
            siblings = {n.args[1]: n for u in graph.users[parts.name] if (n := graph[u]).base == "getitem"}
            if any(i not in siblings for i in range(which)):
                return None
            sizes = [siblings[i].size(dim) for i in range(which)]
            before = tuple(map(sum, zip(*sizes, strict=True))) if sizes else (0,) * len(node.shapes)
            return source.name, self._slice(source, node, dim, before, index)
        if node.base == "slice":
            source = graph[node.inputs[0]]
            start = node.args[2] if len(node.args) > 2 else 0
            if (len(node.args) > 4 and node.args[4] != 1) or not isinstance(start or 0, int) or int(start or 0) < 0:  # type: ignore[arg-type]
                return None
            dim = _dim(node, 1, source.rank)
            return source.name, self._slice(source, node, dim, (int(start or 0),) * len(node.shapes), index)  # type: ignore[arg-type]
        return None

    def _joined(self, node: Node, index: Index) -> str:
        """Select each element of a concatenation from the part that it lies in; only that part is read there."""
        if not is_joinable(self.graph, node):
            raise Unfusable(f"{node.name} joins too many parts, or parts of several dtypes")
        parts = [self.graph[node_name(part)] for part in node.args[0]]  # type: ignore[union-attr]
        dim = _dim(node, 1, node.rank)
        width = tuple(prod(s[dim:]) for s in node.shapes)
        flat = all(prod(s[:dim]) == 1 for s in node.shapes)
        within = index if flat else self._named(f"{_factor(index.text)} % {self.size(width)}", index)
        line = "" if flat else f"{_factor(index.text)} // {self.size(width)}"
        bound, bounds, values = (0,) * len(width), [], []
        for part in parts:
            own = tuple(prod(s[dim:]) for s in part.shapes)
            shift = f" - {self.size(bound)}" if any(bound) else ""
            reached = tuple(a + b for a, b in zip(bound, own, strict=True))
            inside = [
                *([index.mask] if index.mask else []),
                *([f"({within.text} >= {self.size(bound)})"] if shift else []),
                *([f"({within.text} < {self.size(reached)})"] if part is not parts[-1] else []),
            ]
            mask = self._named(" & ".join(inside), index, "inside").text
            start = f"{line} * {self.size(own)} + " if line else ""
            place = f"({start}{within.text}{shift})"
            self._lines[place] = (line, f"{within.text}{shift}", own)
            values.append(self.value(part.name, Index(place, mask, index.tile)))
            bounds.append(self.size(reached))
            bound = reached
        text = values[-1]
        for value, end in reversed(list(zip(values[:-1], bounds, strict=False))):
            text = f"tl.where({within.text} < {end}, {value}, {text})"
        return self.assign(node.name, text, index)

    def _slice(self, source: Node, part: Node, dim: int, before: Vector, index: Index) -> Index:
        """Compute the index into a tensor from an index into a slice of it along one dimension."""
        width = tuple(prod(s[dim:]) for s in part.shapes)
        full = tuple(prod(s[dim:]) for s in source.shapes)
        inner = tuple(prod(s[dim + 1 :]) for s in source.shapes)
        offset = tuple(b * i for b, i in zip(before, inner, strict=True))
        shift = f" + {self.size(offset)}" if any(offset) else ""
        if all(prod(s[:dim]) == 1 for s in part.shapes):
            return Index(f"({index.text}{shift})", index.mask, index.tile) if shift else index
        line, within, length = self._lines.get(index.text, ("", "", ()))
        if line and length == width:
            return self._named(f"{line} * {self.size(full)} + {within}{shift}", index)
        text = f"{_factor(index.text)} // {self.size(width)} * {self.size(full)}"
        return self._named(f"{text} + {_factor(index.text)} % {self.size(width)}{shift}", index)


def _unique(wish: str, taken: set[str]) -> str:
    name, n = wish, 1
    while name in taken:
        n += 1
        name = f"{wish}_{n}" if not wish[-1].isdigit() else f"{wish}_v{n}"
    taken.add(name)
    return name


def is_flat_view(node: Node) -> bool:
    """Return whether a node keeps every element's place in row-major order."""
    return node.base in VIEWS


def reduces_nothing(node: Node, graph: CapturedGraph) -> bool:
    """Return whether a node is a sum, mean or extreme over dimensions of size 1, so that each element is its result."""
    if node.base not in ("sum", "mean", "amax", "amin") or len(node.inputs) != 1 or not node.shapes:
        return False
    source = graph[node.inputs[0]]
    return source.numel == node.numel and source.is_float and node.is_float


def takes_off_extreme(graph: CapturedGraph, nodes: Collection[str]) -> bool:
    """Return whether some of the nodes compute values and take the largest or smallest of a row from each of them."""

    def is_computed(name: str) -> bool:
        moved = name in nodes and is_moving(graph[name], graph)
        return is_computed(graph[name].inputs[0]) if moved else name in nodes

    def is_extreme(name: str) -> bool:
        node = graph[name] if name in graph.by_name else None
        if node is None or node.base in ("amax", "amin"):
            return node is not None
        return (node.base == "where" or is_moving(node, graph)) and any(is_extreme(each) for each in node.inputs)

    pairs = (graph[name].inputs for name in nodes if graph[name].base == "sub")
    return any(len(pair) == 2 and is_computed(pair[0]) and is_extreme(pair[1]) for pair in pairs)


def is_moving(node: Node, graph: CapturedGraph) -> bool:
    """Return whether a node only moves elements, in a way that `Body` can index."""
    if reduces_nothing(node, graph):
        return True
    if node.base == "getitem":
        return graph[node.inputs[0]].base in ("split", "chunk", "split_with_sizes")
    return node.base in ("expand", "slice", "split", "chunk", "split_with_sizes") or is_flat_view(node)


def is_joinable(graph: CapturedGraph, node: Node) -> bool:
    """Return whether a node joins a few parts of one dtype along a dimension, so that a kernel can select from them."""
    if node.base != "cat" or not node.shapes or not isinstance(node.args[0], list) or len(node.args[0]) > MOST_PARTS:
        return False
    return all(graph[node_name(part)].dtype == node.dtype for part in node.args[0])


def _dim(node: Node, place: int, rank: int) -> int:
    raw = node.args[place] if len(node.args) > place else node.kwargs.get("dim", 0)
    return int(raw) % rank  # type: ignore[arg-type]


def _product(vectors: list[Vector]) -> Vector:
    return tuple(prod(column) for column in zip(*vectors, strict=True))


def _factor(text: str) -> str:
    """Put a sum or a quotient in parentheses."""
    return f"({text})" if " " in text and not text.startswith("(") else text

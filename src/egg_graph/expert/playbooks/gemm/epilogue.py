"""Write the epilogue of a matrix product: a device function that turns a tile of sums into a tile of the output."""

import json
import re
from dataclasses import dataclass, field

from pydantic import JsonValue

from egg_graph.expert.capture.graph import CapturedGraph, Placeholder
from egg_graph.expert.codegen.expressions import expression, literal, triton_dtype
from egg_graph.expert.codegen.group import Group
from egg_graph.expert.codegen.helpers import HELPERS
from egg_graph.expert.playbooks.gemm.match import Product, dimensions

RESERVED = frozenset({"acc", "rows", "cols", "inside", "matrix", "row", "M", "N", "K", "a", "b", "out", "tl", "shape"})


@dataclass
class Epilogue:
    """The epilogue's source, and what kernel and wrapper must pass to it."""

    function: str
    """Name of the device function; empty where the sums themselves are the output."""
    source: str = ""
    tensors: list[str] = field(default_factory=list)
    """Nodes and placeholders it reads besides the product's operands."""
    variables: list[str] = field(default_factory=list)
    """The wrapper's parameter for each of `tensors`, then for each number."""
    prepare: list[str] = field(default_factory=list)
    """Wrapper lines that make the operands readable by offset."""
    parameters: list[str] = field(default_factory=list)
    """Kernel parameters, in order."""
    arguments: list[str] = field(default_factory=list)
    """What the wrapper passes for each of them."""
    sizes: list[tuple[int, ...] | tuple[float, ...]] = field(default_factory=list)
    helpers: set[str] = field(default_factory=set)
    formula: str = ""
    """One line for docstrings."""

    def call(self, acc: str, rows: str, cols: str, matrix: str) -> str:
        """Write the expression for one tile of output. `matrix` is the batch index, empty where there is no batch."""
        if not self.function:
            return acc
        place = [acc, *([matrix] if matrix else []), rows, cols, "M", "N"]
        return f"{self.function}({', '.join([*place, *self.parameters])})"


def write_epilogue(graph: CapturedGraph, group: Group, product: Product, name: str) -> Epilogue:
    """Write the epilogue of a group made by `match.group_at`: addend, then the pointwise chain, in fp32."""
    return _EpilogueWriter(graph, group, product, name).write()


class _EpilogueWriter:
    """Writes one epilogue."""

    def __init__(self, graph: CapturedGraph, group: Group, product: Product, name: str) -> None:
        self.graph, self.group, self.product = graph, group, product
        self.epilogue = Epilogue(f"{name}_epilogue")
        self.names: dict[str, str] = {}
        self.loads: list[str] = []
        self.numbers: dict[str, str] = {}

    def write(self) -> Epilogue:
        epilogue, anchor = self.epilogue, self.product.node
        body = [f"{self._name(anchor.name)} = {self._sums()}"]
        steps = [f"{anchor.base}"]
        for node in (self.graph[name] for name in self.group.nodes if name != anchor.name):
            text, helpers = expression(self.graph, node, self._variable, self._number)
            epilogue.helpers |= helpers
            body.append(f"{self._name(node.name)} = {text}")
            steps.append(node.base)
        epilogue.formula = ", ".join(steps)
        if len(body) == 1 and body[0].endswith("= acc"):
            return Epilogue("", formula=epilogue.formula)
        epilogue.source = self._source(body, self._name(self.group.outputs[0]))
        return epilogue

    def _source(self, body: list[str], result: str) -> str:
        matrix = ["matrix"] if self.product.batched else []
        head = ", ".join(["acc", *matrix, "rows", "cols", "M", "N", *self.epilogue.parameters])
        lines = [f'"""One tile of: {self.epilogue.formula}; `acc` holds its sums in fp32."""']
        if self.product.batched and any(re.search(r"\brow\b", line) for line in self.loads):
            lines.append("row = matrix.to(tl.int64) * M + rows")
        if any("inside" in line for line in self.loads):
            lines.append("inside = (rows < M)[:, None] & (cols < N)[None, :]")
        lines += [*self.loads, *body, f"return {result}"]
        return f"@triton.jit\ndef {self.epilogue.function}({head}):\n" + "".join(f"    {line}\n" for line in lines)

    def _sums(self) -> str:
        product = self.product
        text = "acc" if product.alpha == 1 else f"{self._scalar(product.alpha)} * acc"
        if product.addend is None:
            return text
        added = self._variable(product.addend)
        return f"{text} + {added}" if product.beta == 1 else f"{text} + {self._scalar(product.beta)} * {added}"

    def _scalar(self, value: JsonValue) -> str:
        return literal(value) if isinstance(value, int | float) else self._number(value)

    def _variable(self, name: str) -> str:
        if name in self.group.nodes:
            return self._name(name)
        operand = self.graph[name]
        if isinstance(operand, Placeholder) and operand.value is not None:
            return literal(operand.value)
        if name not in self.names:
            self._load(name)
        return self._name(name)

    def _load(self, name: str) -> None:
        """Add an operand: kernel parameters, wrapper arguments, and the line that loads its part of the tile."""
        epilogue, operand = self.epilogue, self.graph[name]
        variable = self._name(name)
        pattern = dimensions(operand, self.product.node)
        assert pattern is not None, "match.broadcasts admits no other operand"
        epilogue.tensors.append(name)
        epilogue.variables.insert(len(epilogue.tensors) - 1, variable)
        epilogue.parameters.append(f"{variable}_ptr")
        epilogue.arguments.append(variable)
        if "1" in pattern:
            epilogue.prepare.append(f"{variable} = {variable}.contiguous()")
        row = self._row_index(variable, pattern[:-1])
        whole_columns = pattern[-1] == "1"
        if row.startswith("("):
            self.loads.append(f"{variable}_row = {row[1:-1]}")
            row = f"{variable}_row"
        if row and whole_columns:
            place, mask = f" + {row}.to(tl.int64)[:, None] * N + cols[None, :]", "inside"
        elif row:
            place, mask = f" + {row}[:, None]", "(rows < M)[:, None]"
        elif whole_columns:
            place, mask = " + cols[None, :]", "(cols < N)[None, :]"
        else:
            place, mask = "", ""
        masked = f", mask={mask}, other=0" if mask else ""
        kind = triton_dtype(operand.dtype)
        self.loads.append(f"{variable} = tl.load({variable}_ptr{place}{masked}).to({kind})")

    def _row_index(self, variable: str, pattern: str) -> str:
        """Write the operand's own row for each row of the output; add parameters where the two differ."""
        if "1" not in pattern:
            return ""
        whole = index = "row" if self.product.batched else "rows"
        before, after = len(pattern) - len(pattern.lstrip("0")), len(pattern.rstrip("0"))
        if after < len(pattern):
            self._row_parameter(f"{variable}_repeats", range(after, len(pattern)))
            index = f"{whole} // {variable}_repeats"
        if before:
            self._row_parameter(f"{variable}_rows", range(before, after))
            index = f"{index} % {variable}_rows"
        return index if index == whole else f"({index})"

    def _row_parameter(self, parameter: str, dims: range) -> None:
        self.epilogue.parameters.append(parameter)
        self.epilogue.arguments.append(" * ".join(f"shape[{dim}]" for dim in dims))

    def _number(self, raw: JsonValue) -> str:
        """Name a number that differs between captures: an argument that the wrapper passes to the kernel."""
        if isinstance(raw, dict) and "float" in raw:
            return literal(float(str(raw["float"])))
        key = json.dumps(raw, sort_keys=True)
        if key not in self.numbers:
            assert isinstance(raw, dict)
            values = raw.get("sizes", raw.get("floats"))
            assert isinstance(values, list)
            self.numbers[key] = parameter = f"number_{len(self.numbers)}"
            self.epilogue.sizes.append(tuple(values))  # type: ignore[arg-type]
            self.epilogue.variables.append(parameter)
            self.epilogue.parameters.append(parameter)
            self.epilogue.arguments.append(parameter)
        return self.numbers[key]

    def _name(self, name: str) -> str:
        if name not in self.names:
            node = self.graph[name]
            text = node.target.replace(".", "_") if isinstance(node, Placeholder) else name
            taken = RESERVED | set(HELPERS) | set(self.names.values())
            while text in taken or not text.isidentifier():
                text = f"{text}_value" if text.isidentifier() else f"v_{len(self.names)}"
            self.names[name] = text
        return self.names[name]

"""Write what a scan's kernel does at one tile of offsets: load and prologue, then epilogue and store."""

import json
from dataclasses import dataclass, field

from pydantic import JsonValue

from egg_graph.expert.capture.graph import CapturedGraph, Placeholder
from egg_graph.expert.codegen.expressions import expression, literal, triton_dtype
from egg_graph.expert.codegen.helpers import HELPERS
from egg_graph.expert.playbooks.scan.match import Scan

RESERVED = frozenset(
    {"x", "scan", "out", "row", "rows", "n", "inner", "outer", "column", "carry", "rounds", "i", "position", "mask",
     "offset", "totals", "piece", "pieces", "before", "after", "within", "tiles", "tl", "shape", "most"}
)  # fmt: skip

BEFORE = {
    "pieces": ("1", "(position > 0)"),
    "rows": ("1", "(position > 0)[None, :]"),
    "columns": ("inner", "(position > 0)[:, None]"),
}
"""How far back the number before an element lies, and where there is one, in each structure."""


@dataclass
class ScanBody:
    """Lines of the kernel, and what the wrapper passes for them."""

    load: list[str] = field(default_factory=list)
    store: list[str] = field(default_factory=list)
    tensors: list[str] = field(default_factory=list)
    variables: list[str] = field(default_factory=list)
    """The wrapper's parameter for each of `tensors`."""
    whole: list[str] = field(default_factory=list)
    """The variables that have the scan's shape."""
    numbers: list[str] = field(default_factory=list)
    sizes: list[tuple[int, ...] | tuple[float, ...]] = field(default_factory=list)
    helpers: set[str] = field(default_factory=set)


class ScanBodyWriter:
    """Writes a ScanBody. Elements outside the tensor hold `neutral`, which the scan ignores."""

    def __init__(self, graph: CapturedGraph, scan: Scan, neutral: str, structure: str) -> None:
        self.graph, self.scan, self.neutral, self.structure = graph, scan, neutral, structure
        self.body = ScanBody()
        self.names: dict[str, str] = {}
        self.loaded: dict[str, str] = {}
        self.number_names: dict[str, str] = {}

    def write(self) -> ScanBody:
        scan, body = self.scan, self.body
        body.load = self._prologue()
        self.names[scan.result] = "scan"
        body.store = self._chain(scan.after)
        last = self._variable(scan.after[-1]) if scan.after else "scan"
        body.store.append(f"tl.store(out_ptr + offset, {last}.to(out_ptr.dtype.element_ty), mask=mask)")
        return body

    def _prologue(self) -> list[str]:
        scan = self.scan
        kind = triton_dtype(scan.node.dtype)
        if not scan.before:
            return [*self._load(scan.source, "x", self.neutral, kind)]
        lines = self._chain(scan.before)
        return [*lines, f"x = tl.where(mask, {self._variable(scan.source)}.to({kind}), {self.neutral})"]

    def _chain(self, nodes: tuple[str, ...]) -> list[str]:
        """Write one line per node; loads stand just before their first use."""
        lines: list[str] = []
        for name in nodes:
            node = self.graph[name]
            for operand in node.inputs:
                if operand not in self.names and not self._constant(operand):
                    lines += self._load(operand, self._new_name(operand), "0", triton_dtype(self.graph[operand].dtype))
            text, helpers = expression(self.graph, node, self._variable, self._number)
            self.body.helpers |= helpers
            lines.append(f"{self._new_name(name)} = {text}")
        return lines

    def _load(self, name: str, variable: str, other: str, kind: str) -> list[str]:
        operand, body = self.graph[name], self.body
        self.names.setdefault(name, variable)
        pointer = self._argument(name)
        body.tensors.append(name)
        body.variables.append(pointer)
        if operand.shapes == self.graph[self.scan.result].shapes:
            body.whole.append(pointer)
            if self.scan.exclusive:
                stride, later = BEFORE[self.structure]
                where = f"{pointer}_ptr + offset - {stride}, mask=mask & {later}"
                return [f"{variable} = tl.load({where}, other={other}).to({kind})"]
            return [f"{variable} = tl.load({pointer}_ptr + offset, mask=mask, other={other}).to({kind})"]
        return [f"{variable} = tl.load({pointer}_ptr).to({kind})"]

    def _argument(self, name: str) -> str:
        """Return the wrapper's name for a tensor. A tensor that is read twice is passed once."""
        node = self.graph[name]
        text = node.target.replace(".", "_") if isinstance(node, Placeholder) else name
        return (
            text if text not in ("out", "n", "rows", "inner", "shape", "most", "piece", "pieces") else f"{text}_value"
        )

    def _constant(self, name: str) -> bool:
        node = self.graph[name]
        return isinstance(node, Placeholder) and node.value is not None

    def _variable(self, name: str) -> str:
        node = self.graph[name]
        if isinstance(node, Placeholder) and node.value is not None:
            return literal(node.value)
        return self.names[name]

    def _new_name(self, name: str) -> str:
        if name not in self.names:
            text = self._argument(name)
            while text in RESERVED | set(HELPERS) | set(self.names.values()):
                text += "_value"
            self.names[name] = text
        return self.names[name]

    def _number(self, raw: JsonValue) -> str:
        if isinstance(raw, dict) and "float" in raw:
            return literal(float(str(raw["float"])))
        key = json.dumps(raw, sort_keys=True)
        if key not in self.number_names:
            assert isinstance(raw, dict)
            values = raw.get("sizes", raw.get("floats"))
            assert isinstance(values, list)
            self.number_names[key] = f"number_{len(self.number_names)}"
            self.body.numbers.append(self.number_names[key])
            self.body.sizes.append(tuple(values))  # type: ignore[arg-type]
        return self.number_names[key]

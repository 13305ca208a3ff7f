"""Write a convolution's tail: the statements between the sums in registers and the store of the output."""

import json
import re
from dataclasses import dataclass, field

from pydantic import JsonValue

from egg_graph.expert.capture.graph import CapturedGraph, Placeholder
from egg_graph.expert.codegen.expressions import expression, literal, triton_dtype
from egg_graph.expert.codegen.group import Group
from egg_graph.expert.codegen.helpers import HELPERS
from egg_graph.expert.playbooks.convolution.match import Convolution
from egg_graph.expert.playbooks.gemm.match import dimensions


@dataclass(frozen=True)
class Dimension:
    """How the tile addresses one dimension of the output."""

    index: str
    """Kernel text of the index; all of them broadcast to the tile."""
    mask: str
    size: str
    """Kernel text of the dimension's size."""


@dataclass(frozen=True)
class Tile:
    """How the tile addresses the output: by dimension, and as a whole."""

    dims: tuple[Dimension, ...]
    offsets: str = "out_offsets"
    mask: str = "inside"


@dataclass
class Tail:
    """The tail's statements, and what kernel and wrapper must pass to them."""

    lines: list[str] = field(default_factory=list)
    result: str = "acc"
    """The variable that holds the output."""
    tensors: list[str] = field(default_factory=list)
    """Nodes and placeholders it reads besides input and weight."""
    labels: list[str] = field(default_factory=list)
    """The wrapper's parameter for each of `tensors`."""
    numbers: dict[str, str] = field(default_factory=dict)
    sizes: list[tuple[int, ...] | tuple[float, ...]] = field(default_factory=list)
    helpers: set[str] = field(default_factory=set)
    formula: str = ""
    """One line for docstrings."""

    @property
    def parameters(self) -> list[str]:
        """The kernel's parameters."""
        return [*(f"{label}_ptr" for label in self.labels), *self.numbers.values()]

    @property
    def arguments(self) -> list[str]:
        """The wrapper's parameters, which it passes on."""
        return [*self.labels, *self.numbers.values()]


class TailWriter:
    """Writes one tail. Every name it makes ends in a word that the kernels do not use."""

    def __init__(self, graph: CapturedGraph, group: Group, convolution: Convolution, tile: Tile) -> None:
        self.graph, self.group, self.convolution, self.tile = graph, group, convolution, tile
        self.tail = Tail()
        self.names: dict[str, str] = {}

    def write(self) -> Tail:
        """Write the bias, then the chain, in fp32."""
        tail, anchor = self.tail, self.convolution.node
        steps = [anchor.base]
        if self.convolution.bias is None:
            self.names[anchor.name] = "acc"
        else:
            bias = self._operand(self.convolution.bias, "0" + "1" + "0" * self.convolution.rank)
            self._assign(anchor.name, f"acc + {bias}")
        for node in (self.graph[name] for name in self.group.nodes if name != anchor.name):
            text, helpers = expression(self.graph, node, self._variable, self._number)
            tail.helpers |= helpers
            self._assign(node.name, text)
            steps.append(node.base)
        tail.result = self.names[self.group.outputs[0]]
        tail.formula = ", ".join(steps)
        return tail

    def _assign(self, name: str, text: str) -> None:
        self.names[name] = self._fresh(f"{name}_value")
        self.tail.lines.append(f"{self.names[name]} = {text}")

    def _variable(self, name: str) -> str:
        if name in self.group.nodes:
            return self.names[name]
        operand = self.graph[name]
        if isinstance(operand, Placeholder) and operand.value is not None:
            return literal(operand.value)
        pattern = dimensions(operand, self.convolution.node)
        assert pattern is not None, "match.broadcasts admits no other operand"
        return self._operand(name, pattern)

    def _operand(self, name: str, pattern: str) -> str:
        """Return the variable that holds an operand's part of the tile; load it at its first use."""
        key = f"{name}@{pattern}"
        if key in self.names:
            return self.names[key]
        operand, tail = self.graph[name], self.tail
        if name not in tail.tensors:
            tail.tensors.append(name)
            tail.labels.append(self._fresh(f"{operand.target if isinstance(operand, Placeholder) else name}_operand"))
        label = tail.labels[tail.tensors.index(name)]
        self.names[key] = variable = self._fresh(f"{label}_value")
        place, mask = self._place(pattern)
        where = f"{label}_ptr + {place}" if place else f"{label}_ptr"
        masked = f", mask={mask}, other=0" if mask else ""
        tail.lines.append(f"{variable} = tl.load({where}{masked}).to({triton_dtype(operand.dtype)})")
        return variable

    def _place(self, pattern: str) -> tuple[str, str]:
        """Return offsets and mask of an operand that has the dimensions marked "1" whole, in row-major order."""
        dims = self.tile.dims
        if "0" not in pattern:
            return self.tile.offsets, self.tile.mask
        terms, masks, stride = [], [], ""
        for dim, kept in reversed(list(zip(dims, pattern, strict=True))):
            if kept == "1":
                terms.append(f"{dim.index}{stride}")
                stride += f" * {dim.size}"
                masks += [dim.mask] if dim.mask and dim.mask not in masks else []
        return " + ".join(reversed(terms)), " & ".join(f"({m})" for m in masks)

    def _number(self, raw: JsonValue) -> str:
        """Name a number that differs between captures: an argument that the wrapper passes to the kernel."""
        assert isinstance(raw, dict)
        if "float" in raw:
            return literal(float(str(raw["float"])))
        key = json.dumps(raw, sort_keys=True)
        if key not in self.tail.numbers:
            values = raw.get("sizes", raw.get("floats"))
            assert isinstance(values, list)
            self.tail.numbers[key] = f"number_{len(self.tail.numbers)}"
            self.tail.sizes.append(tuple(values))  # type: ignore[arg-type]
        return self.tail.numbers[key]

    def _fresh(self, wish: str) -> str:
        text = re.sub(r"\W", "_", wish)
        taken = {*self.names.values(), *self.tail.labels, *HELPERS}
        while text in taken:
            text += "_"
        return text

"""Write a convolution's tail: the statements between the sums in registers and the store of the output."""

import json
import re
from dataclasses import dataclass, field
from functools import partial

from pydantic import JsonValue

from egg_graph.expert.capture.graph import CapturedGraph, Node, Placeholder
from egg_graph.expert.codegen.expressions import expression, literal, triton_dtype
from egg_graph.expert.codegen.group import Group
from egg_graph.expert.codegen.helpers import HELPERS
from egg_graph.expert.codegen.reductions import whole_tile
from egg_graph.expert.playbooks.convolution.match import Convolution, parts_in, reduces_channels, reduces_pixels
from egg_graph.expert.playbooks.convolution.window import Window, window_at
from egg_graph.expert.playbooks.gemm.match import dimensions

ALL_CHANNELS = "groups * N, "


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
    """Of the output: sample, channel, then space."""
    channel_axis: int | None = None
    """Axis of the tile that counts the channels; None where a tile lies in one of them."""
    offsets: str = "out_offsets"
    mask: str = "inside"


@dataclass
class Tail:
    """The tail's statements, and what kernel and wrapper must pass to them."""

    lines: list[str] = field(default_factory=list)
    """Those behind the window, where there is one."""
    result: str = "acc"
    """The variable that holds the output."""
    window: Window | None = None
    """The reduction over windows of pixels in it."""
    walked: list[str] = field(default_factory=list)
    """The statements ahead of the window, for each of its places."""
    joined: str = ""
    """The variable with what the window reduces."""
    tensors: list[str] = field(default_factory=list)
    """Nodes and placeholders it reads besides input and weight."""
    labels: list[str] = field(default_factory=list)
    """The wrapper's parameter for each of `tensors`."""
    numbers: dict[str, str] = field(default_factory=dict)
    sizes: list[tuple[int, ...] | tuple[float, ...]] = field(default_factory=list)
    helpers: set[str] = field(default_factory=set)
    formula: str = ""
    """One line for docstrings."""
    holds_channels: bool = False
    """Whether it reduces over the channels, so that a tile has to hold all of them."""
    pixels: tuple[Node, ...] = ()
    """The outputs, where they are reductions of `result` over all pixels of a channel: a sum, a mean, or a mean and a
    variance."""
    parts: Node | None = None
    """The moments of parts that each tile leaves beside its output."""
    channels: str = ALL_CHANNELS
    """What lies between samples and space in the output's shape, as the wrapper's text."""

    @property
    def without_channels(self) -> bool:
        """Whether the output itself is reduced over the channels."""
        return self.channels != ALL_CHANNELS

    @property
    def reduces(self) -> bool:
        """Whether it reduces anything."""
        return self.holds_channels or bool(self.pixels) or self.window is not None

    @property
    def reshapes(self) -> bool:
        """Whether the output has another shape than the convolution's own."""
        return self.without_channels or bool(self.pixels) or self.window is not None

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
        self.anchor = convolution.node
        self.dims = tile.dims

    def write(self) -> Tail:
        """Write the bias, then the chain, in fp32."""
        tail, anchor = self.tail, self.convolution.node
        steps = [anchor.base]
        if self.convolution.bias is None:
            self.names[anchor.name] = "acc"
        else:
            bias = self._operand(self.convolution.bias, "0" + "1" + "0" * self.convolution.rank)
            self._assign(anchor.name, f"acc + {bias}")
        self.tail.parts = parts_in(self.graph, self.group)
        for node in (self.graph[name] for name in self.group.nodes if name != anchor.name):
            if node is not self.tail.parts:
                steps.append(node.base)
                self._step(node)
        output = self.graph[tail.pixels[0].inputs[0] if tail.pixels else self.group.outputs[0]]
        tail.result = self.names[output.name]
        if output.shapes != self.anchor.shapes:
            tail.channels = "1, " if output.rank == self.anchor.rank else ""
        tail.formula = ", ".join(steps)
        return tail

    def _step(self, node: Node) -> None:
        """Write one node of the chain."""
        source = self.graph[node.inputs[0]]
        if reduces_pixels(self.anchor, node, source):
            self.tail.pixels += (node,)
        elif reduces_channels(self.anchor, node, source):
            self._reduce(node)
        elif (window := window_at(self.graph, self.anchor, node)) is not None:
            self._walk(window)
        else:
            text, helpers = expression(self.graph, node, partial(self._variable, at=node), self._number)
            self.tail.helpers |= helpers
            self._assign(node.name, text)

    def _walk(self, window: Window) -> None:
        """Keep what was written so far for each place of a window; what follows has the shape of its result."""
        tail, source = self.tail, window.node.inputs[0]
        tail.window, tail.joined = window, self.names[source]
        tail.walked, tail.lines = tail.lines, []
        self.names = {key: name for key, name in self.names.items() if "@" not in key}
        self.names[window.node.name] = "pooled"
        self.anchor = window.node
        self.dims = tuple(dim for d, dim in enumerate(self.tile.dims, -2) if d not in window.dropped)

    def _reduce(self, node: Node) -> None:
        """Reduce a tile over its channels; what is left has one for all of them."""
        axis, channel = self.tile.channel_axis, self.tile.dims[1]
        assert axis is not None, "match.group_at takes no reduction there"
        texts = whole_tile(node, self.names[node.inputs[0]], channel.mask, axis, channel.size, channel.index)
        parts: list[str] = []
        for text in texts[:-1]:
            parts.append(self._fresh(f"{node.name}_part"))
            self.names[f"{node.name} {len(parts)}"] = parts[-1]
            self.tail.lines.append(f"{parts[-1]} = {text.format(*parts)}")
        self._assign(node.name, texts[-1].format(*parts))
        self.tail.holds_channels = True

    def _assign(self, name: str, text: str) -> None:
        self.names[name] = self._fresh(f"{name}_value")
        self.tail.lines.append(f"{self.names[name]} = {text}")

    def _variable(self, name: str, at: Node) -> str:
        """Return the variable that holds an input of the node `at`."""
        if name in self.group.nodes:
            return self.names[name]
        operand = self.graph[name]
        if isinstance(operand, Placeholder) and operand.value is not None:
            return literal(operand.value)
        pattern = dimensions(operand, at)
        assert pattern is not None, "match.broadcasts admits no other operand"
        if at.shapes != self.anchor.shapes:  # for all channels alike
            pattern = pattern[0] + "0" + pattern[1 + (at.rank == self.anchor.rank) :]
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
        dims = self.dims
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

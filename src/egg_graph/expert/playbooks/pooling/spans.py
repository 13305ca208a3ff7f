"""How a program's lanes lie along the input's last dimension, and how they become the outputs of a line.

Every number that a program reads is first joined with those of the same column in the window's other rows. What is left
of a line is then joined along the last dimension, once an output.
"""

from collections.abc import Callable
from dataclasses import dataclass

from egg_graph.expert.codegen.indexing import Vector
from egg_graph.expert.playbooks.knobs import power_of_two
from egg_graph.expert.playbooks.pooling.match import Pooling

MOST_HELD = 32
"""Numbers that a lane holds for its outputs."""
MOST_LANES = 256
"""Lanes beside each other for one window."""

Size = Callable[[str, Vector], str]
"""Names a number of the kernel: a literal, or a constexpr argument."""


@dataclass(frozen=True)
class Taps:
    """A lane reads its window number by number, in a loop: the structure for any window."""

    tail = ""
    parts = ("",)
    held = 1
    outputs = 1
    guards = False
    """Whether a tile has lanes that belong to no window."""
    shape = "[LINES, BLOCK]"

    def columns(self, size: Size, length: str) -> list[str]:
        """Return the statements that name the columns ahead of all loops: none, they change with the loop."""
        return []

    def join(self, is_max: bool) -> list[str]:
        """Return the statements that make `pool` of the parts."""
        return ["pool = part"]


@dataclass(frozen=True)
class Windows:
    """Lanes beside each other share a window, and no other has its numbers: loads are contiguous at any alignment."""

    pooling: Pooling
    tail = "[:, :, None]"
    parts = ("",)
    outputs = 1
    shape = "[LINES, BLOCK, LANES]"

    @property
    def lanes(self) -> Vector:
        """Lanes of one window, by capture."""
        return tuple(power_of_two(t) for t in self.pooling.taps[-1])

    @property
    def held(self) -> int:
        return self.lanes[0]

    @property
    def guards(self) -> bool:
        """Whether a tile has lanes that belong to no window."""
        return self.lanes != self.pooling.taps[-1]

    def columns(self, size: Size, length: str) -> list[str]:
        """Return the statements that name the columns, and those of them that are the input's and a window's."""
        pooling = self.pooling
        stride, padding = size("S_w", pooling.stride[-1]), pooling.padding[-1]
        shift = f" - {size('P_w', padding)}" if any(padding) else ""
        within = ["(in_w >= 0)"] if any(padding) else []
        within += [f"(in_w < {length})"]
        within += [f"(lane < {size('K_w', pooling.taps[-1])})"] if self.guards else []
        return [
            "lane = tl.arange(0, LANES)[None, None, :]",
            f"in_w = begin * {stride}{shift} + tl.arange(0, BLOCK)[None, :, None] * {stride} + lane",
            f"reach = {' & '.join(within)}",
        ]

    def join(self, is_max: bool) -> list[str]:
        """Return the statements that make `pool` of the parts."""
        return [f"pool = {'tl.reduce(part, 2, propagate_max)' if is_max else 'tl.sum(part, axis=2)'}"]


@dataclass(frozen=True)
class Blocks:
    """A lane reads aligned blocks, and computes the outputs whose windows they cover from its own registers."""

    width: int
    """Numbers of a block: 2 or 4, which one instruction loads."""
    outputs: int
    """Outputs of a lane."""
    stride: int
    begin: int
    """Numbers of padding that the first block begins with: a multiple of the width."""
    windows: tuple[tuple[int, ...], ...]
    """By output, the places of its numbers, counted from the first block's first number."""
    tail = "[:, :, None]"
    guards = False
    """Whether a tile has lanes that belong to no window."""

    @property
    def places(self) -> tuple[int, ...]:
        """The blocks that some window needs, in order."""
        return tuple(sorted({place // self.width for window in self.windows for place in window}))

    @property
    def parts(self) -> tuple[str, ...]:
        return ("",) if len(self.places) == 1 else tuple(f"_{place}" for place in self.places)

    @property
    def held(self) -> int:
        return self.width * len(self.places)

    @property
    def shape(self) -> str:
        return f"[LINES, {self.units}, {self.width}]"

    @property
    def units(self) -> str:
        """Lanes of a line, as kernel text."""
        return "BLOCK" if self.outputs == 1 else f"BLOCK // {self.outputs}"

    def columns(self, size: Size, length: str) -> list[str]:
        """Return the statements that name each block's columns, and those of them that are the input's."""
        lane = f"tl.arange(0, {self.units})[None, :, None] * {self.stride * self.outputs}"
        lines = [f"block = begin * {self.stride} + {lane} + tl.arange(0, {self.width})[None, None, :]"]
        for place, part in zip(self.places, self.parts, strict=True):
            shift = place * self.width - self.begin
            lines.append(f"in_w{part} = block" + (f" {'+' if shift > 0 else '-'} {abs(shift)}" if shift else ""))
            left = f"(in_w{part} >= 0) & " if shift < 0 else ""
            lines.append(f"reach{part} = {left}(in_w{part} < {length})")
        return lines

    def join(self, is_max: bool) -> list[str]:
        """Return the statements that make `pool` of the parts."""
        lines = []
        for place, part in zip(self.places, self.parts, strict=True):
            names = [f"number_at_{place * self.width + n}" for n in range(self.width)]
            if self.width == 4:
                lines += [
                    f"even, odd = tl.split(tl.reshape(part{part}, [LINES, {self.units}, 2, 2]))",
                    f"{names[0]}, {names[2]} = tl.split(even)",
                    f"{names[1]}, {names[3]} = tl.split(odd)",
                ]
            else:
                lines.append(f"{names[0]}, {names[1]} = tl.split(part{part})")
        for output, window in enumerate(self.windows):
            text = f"number_at_{window[0]}"
            for n in window[1:]:
                text = f"propagate_max({text}, number_at_{n})" if is_max else f"{text} + number_at_{n}"
            lines.append(f"pool_{output} = {text}")
        joined = {1: "pool_0", 2: "tl.join(pool_0, pool_1)",
                  4: "tl.join(tl.join(pool_0, pool_2), tl.join(pool_1, pool_3))"}[self.outputs]  # fmt: skip
        return [*lines, f"pool = {joined if self.outputs == 1 else f'tl.reshape({joined}, [LINES, BLOCK])'}"]


Span = Taps | Windows | Blocks


def span_of(pooling: Pooling, length: Vector) -> Span:
    """Choose the span: aligned blocks where rows are aligned, else lanes beside each other where windows are apart.

    Args:
        pooling: The pooling.
        length: The input's last dimension, by capture.
    """
    blocks = _blocks(pooling, 4 if length[0] % 4 == 0 else 2) if length[0] % 2 == 0 else None
    if blocks is not None and blocks.stride <= blocks.width:
        return blocks
    if pooling.is_partition and max(pooling.taps[-1]) <= MOST_LANES:
        return Windows(pooling)
    return blocks or Taps()


def _blocks(pooling: Pooling, width: int) -> Blocks | None:
    """Return the aligned blocks; None where the numbers differ by capture, or a lane would hold too many."""
    numbers = (pooling.taps[-1], pooling.stride[-1], pooling.padding[-1], pooling.dilation[-1])
    if any(len(set(values)) > 1 for values in numbers) or pooling.stride[-1][0] not in (1, 2, 4):
        return None
    taps, stride, padding, dilation = (values[0] for values in numbers)
    outputs = max(1, width // stride)
    begin = -(-padding // width) * width
    windows = tuple(
        tuple(begin - padding + stride * output + dilation * tap for tap in range(taps)) for output in range(outputs)
    )
    found = Blocks(width, outputs, stride, begin, windows)
    return found if found.held <= MOST_HELD else None

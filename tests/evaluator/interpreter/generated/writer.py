"""How a generated kernel is written: one program, or a few, over small blocks, and a module that launches it."""

from __future__ import annotations

import random
from dataclasses import dataclass
from math import prod

from tests.evaluator.interpreter.generated.values import Draw

Shape = tuple[int, ...]
TRITON_NAMES = {
    "float16": "tl.float16", "bfloat16": "tl.bfloat16", "float32": "tl.float32", "float64": "tl.float64",
    "float8_e5m2": "tl.float8e5", "float8_e4m3fn": "tl.float8e4nv", "bool": "tl.int1",
}  # fmt: skip
HEADER = "import torch\nimport triton\nimport triton.language as tl\nfrom triton.language.extra import libdevice\n"


def triton_name(dtype: str) -> str:
    """Triton's name of a dtype of torch."""
    return TRITON_NAMES.get(dtype, f"tl.{dtype}")


@dataclass(frozen=True)
class GeneratedKernel:
    """One kernel: a module with a `ModelNew`, as the evaluator knows it, and what it is called with."""

    category: str
    number: int
    source: str
    inputs: tuple[Draw, ...]
    errors: tuple[str, ...]
    """For each output, the class of `errors.ERRORS` that it belongs to."""

    @property
    def name(self) -> str:
        """Category and number, as a file name."""
        return f"{self.category}_{self.number:03d}"


class Writer:
    """Writes one kernel. `random` is seeded by category and number, so the same text comes out everywhere.

    Attributes:
        shape: of blocks that are loaded or stored without another shape.
        options: launch options, as Python text.
        grid: of the launch, as Python text.
    """

    def __init__(self, category: str, number: int) -> None:
        self.category, self.number = category, number
        self.random = random.Random(f"{category} {number}")
        self.shape: Shape = (self.random.choice((16, 32, 64, 128, 256)),)
        self.grid = "(1,)"
        self.options: dict[str, str] = {"num_warps": str(self.random.choice((1, 2, 4)))}
        self.functions: list[str] = []
        self.body: list[str] = []
        self.inputs: list[Draw] = []
        self.outputs: list[tuple[str, str]] = []
        self.errors: list[str] = []
        self.parameters: list[tuple[str, str]] = []

    def cycle(self, *choices: str) -> str:
        """Choose by the kernel's number, so that every choice has its turn."""
        return choices[self.number % len(choices)]

    def pick(self, *choices: str) -> str:
        """Choose at random."""
        return self.random.choice(choices)

    def line(self, *text: str) -> None:
        """Add lines to the kernel."""
        self.body.extend(text)

    def function(self, text: str) -> None:
        """Add a device function."""
        self.functions.append(text.strip("\n"))

    def parameter(self, name: str, value: str) -> str:
        """Add a parameter (`name` with its annotation) and what is passed for it."""
        self.parameters.append((name, value))
        return name.partition(":")[0]

    def argument(self, dtype: str, kind: str = "edges", shape: Shape | None = None) -> str:
        """Add an input tensor; return the name of its pointer."""
        name = f"x{len(self.inputs)}"
        self.inputs.append(Draw(dtype, shape or self.shape, kind, self.random.randrange(2**31)))
        return self.parameter(name + "_ptr", name)

    def load(self, dtype: str, kind: str = "edges", shape: Shape | None = None) -> str:
        """Add an input tensor and load it as one block; return the block's name."""
        pointer = self.argument(dtype, kind, shape)
        name = pointer.removesuffix("_ptr")
        self.line(f"{name} = tl.load({pointer} + {offsets(shape or self.shape)})")
        return name

    def result(self, dtype: str, error: str = "exact", shape: Shape | None = None, start: str = "") -> str:
        """Add an output tensor; return the name of its pointer. `start` is what it holds before, as Python text."""
        name = f"y{len(self.outputs)}"
        size = self.shape if shape is None else shape
        made = start or f"torch.empty({size or (1,)}, dtype=torch.{dtype}, device=x0.device)"
        self.outputs.append((name, made))
        self.errors.append(error)
        return self.parameter(name + "_ptr", name)

    def store(self, value: str, dtype: str, error: str = "exact", shape: Shape | None = None) -> None:
        """Add an output tensor and store a block, or a scalar where the shape is ()."""
        size = self.shape if shape is None else shape
        pointer = self.result(dtype, error, size)
        place = f"{pointer} + {offsets(size)}" if size else pointer
        self.line(f"tl.store({place}, {value})")

    def kernel(self) -> GeneratedKernel:
        """Finish the text."""
        names = ", ".join(name for name, _ in self.parameters)
        call = ", ".join([*(value for _, value in self.parameters), *(f"{k}={v}" for k, v in self.options.items())])
        inputs = ", ".join(f"x{i}" for i in range(len(self.inputs)))
        made = "\n".join(f"        {name} = {text}" for name, text in self.outputs)
        outputs = ", ".join(name for name, _ in self.outputs)
        draws = "\n".join(
            f"# x{i}: {d.dtype}{list(d.shape)} {d.kind}, seed {d.seed}" for i, d in enumerate(self.inputs)
        )
        functions = "".join(f"\n\n@triton.jit\n{text}\n" for text in self.functions)
        body = "\n".join("    " + line for line in self.body)
        source = (
            f"# {self.category} {self.number}\n{draws}\n{HEADER}{functions}\n\n@triton.jit\ndef kernel({names}):\n"
            f"{body}\n\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, {inputs}):\n{made}\n"
            f"        kernel[{self.grid}]({call})\n        return [{outputs}]\n"
        )
        return GeneratedKernel(self.category, self.number, source, tuple(self.inputs), tuple(self.errors))


def offsets(shape: Shape) -> str:
    """Offsets of the elements of a dense block, as Triton text."""
    terms = []
    for axis, length in enumerate(shape):
        index = ", ".join(":" if other == axis else "None" for other in range(len(shape)))
        text = f"tl.arange(0, {length})" + (f"[{index}]" if len(shape) > 1 else "")
        stride = prod(shape[axis + 1 :])
        terms.append(text if stride == 1 else f"{text} * {stride}")
    return " + ".join(terms)

"""A team of your own: a library of kernels answers where it can, and the embedded expert where it cannot.

A team is any object with a name and three methods: `analyze`, `write` and `debug`. Each takes a `Brief`, which holds
all that the role may know, and returns a value; the graph, the evaluator, the tuner and the evidence stay the same.

    python examples/own_team.py
"""

import json
from typing import Any

from egg_graph import Analysis, Brief, Context, Diagnosis, Draft, Team, build_egg_graph, to_json
from egg_graph.expert import EmbeddedExpert

REFERENCE = """
import torch
from torch import nn

ROWS = 128
COLUMNS = 500


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]
"""

SOFTMAX = '''"""Softmax over rows that fit in one block."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    x = tl.load(x_ptr + row * columns + offsets, mask=inside, other=-float("inf")).to(tl.float32)
    weights = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row * columns + offsets, weights / tl.sum(weights, axis=0), mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        columns = x.shape[-1]
        rows = x.numel() // columns
        softmax_kernel[(rows,)](x, y, columns, BLOCK=triton.next_power_of_2(columns))
        return y
'''

LIBRARY = {("aten._softmax.default",): SOFTMAX}
"""Kernels by the ATen operators of the references that they replace."""


class LibraryTeam:
    """Looks a seed up in a library; leaves the rest to another team.

    Args:
        library: sources by operators.
        other: plays analyst and debugger, and writes what the library lacks.
    """

    def __init__(self, library: dict[tuple[str, ...], str], other: Team) -> None:
        self.name = "house library"
        self.library = library
        self.other = other

    def analyze(self, brief: Brief) -> Analysis:
        return self.other.analyze(brief)

    def write(self, brief: Brief) -> Draft:
        operators = brief.baseline.operators
        if brief.mode == "seed" and operators in self.library:
            return Draft(source=self.library[operators], note=f"from the library: {', '.join(operators)}")
        return self.other.write(brief)

    def debug(self, brief: Brief) -> Diagnosis:
        return self.other.debug(brief)


def run(team: Team, **parts: Any) -> dict[str, Any]:
    """Optimize the reference with a team."""
    graph = build_egg_graph(team=team, **parts)
    return graph.invoke({"reference": REFERENCE}, context=Context(max_attempts=3, stages=("algorithmic_structure",)))


def main() -> None:
    state = run(LibraryTeam(LIBRARY, EmbeddedExpert()))
    first = state["attempts"][0]
    print(f"{first.candidate.author}: {first.candidate.plan}")
    print(state["verdict"].splitlines()[0])
    print(json.dumps(to_json(state)["usage"]))


if __name__ == "__main__":
    main()

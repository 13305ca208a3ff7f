"""A right kernel that takes its time, so that a test can end a process in the middle of its evaluation."""

from egg_graph.schema import Candidate, Hardware, KernelTask

REFERENCE = """
import torch
from torch import nn

rows = 6
columns = 40


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2.0


def get_inputs():
    return [torch.randn(rows, columns)]
"""
RIGHT = """
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def twice_relu_kernel(x, out, size, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < size
    tl.store(out + offsets, 2.0 * tl.maximum(tl.load(x + offsets, mask=inside), 0.0), mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        twice_relu_kernel[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
        return out
"""


def task(h200: Hardware) -> KernelTask:
    return KernelTask(name="twice_relu", reference=REFERENCE, target=h200)


def candidate(source: str = RIGHT, *, number: int = 0, slow: bool = False) -> Candidate:
    """The kernel; `number` makes another text of it, `slow` keeps its processes busy for tenths of a second."""
    wait = "        for _ in range(1_000_000):\n            pass\n" if slow else ""
    text = source.replace("        x = x.contiguous()\n", f"{wait}        x = x.contiguous()\n") + f"# {number}\n"
    return Candidate(source=text, author="test", stage="algorithmic_structure", mode="seed")

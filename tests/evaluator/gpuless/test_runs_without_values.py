"""What a run without values takes for the values of integers, and what it offers of a GPU that is not there."""

from collections.abc import Iterator

import pytest
import torch

from egg_graph.evaluator.evidence.builder import EvaluationBuilder
from egg_graph.evaluator.gpuless.ladder import GpulessLadder
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.schema import Candidate, Hardware, KernelTask
from tests.evaluator.pretended_gpu import compiling_ladder

REFERENCE = """
import torch

ROWS, WIDTH = 100, 64


class Model(torch.nn.Module):
    def forward(self, x, order):
        return x * (order[:, None] + 1)


def get_inputs():
    return [torch.randn(ROWS, WIDTH), torch.rand(ROWS).argsort()]
"""
CANDIDATE = """
import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, order_ptr, out_ptr, rows, width: tl.constexpr, ROWS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    order = tl.load(order_ptr + row, mask=row < rows, other=OTHER)
    places = row[:, None] * width + tl.arange(0, width)
    x = tl.load(x_ptr + places, mask=order[:, None] >= 0)
    tl.store(out_ptr + places, x * (order[:, None] + 1), mask=row[:, None] < rows)


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.done = torch.cuda.Event()

    def forward(self, x, order):
        out = torch.empty_like(x)
        scale_kernel[(triton.cdiv(x.shape[0], 32),)](x, order, out, x.shape[0], x.shape[1], ROWS=32)
        out.record_stream(torch.cuda.current_stream())
        self.done.record()
        assert self.done.query() and not torch.cuda.is_current_stream_capturing()
        return out
"""


@pytest.fixture(scope="module")
def ladder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GpulessLadder]:
    with compiling_ladder(tmp_path_factory.mktemp("judge")) as made:
        yield made


@pytest.mark.parametrize(("other", "outside"), [("-1", False), ("0", True)])
def test_an_integer_that_is_masked_off_is_what_the_load_says(
    ladder: GpulessLadder, h200: Hardware, other: str, outside: bool
) -> None:
    task = KernelTask(name="order", reference=REFERENCE, target=h200, precision="ieee")
    source = CANDIDATE.replace("OTHER", other)
    candidate = Candidate(source=source, author="t", stage="tensor_tiling", mode="seed")
    found = EvaluationBuilder()
    call = ladder.fake_call(Problem(task, 1, torch.device("cpu")))
    ladder.launches(task, candidate, call, found)
    assert [finding.kind for finding in found.findings] == (["out_of_bounds"] if outside else [])

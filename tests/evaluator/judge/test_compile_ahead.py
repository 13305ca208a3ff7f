"""What is compiled ahead of a sweep is what the process on the GPU looks for: it compiles nothing again."""

import re
from collections.abc import Iterator

import pytest
import torch

from egg_graph.evaluator.gpuless import cache_filling
from egg_graph.evaluator.gpuless.ladder import GpulessLadder
from egg_graph.evaluator.judge.compile_ahead import compiled_ahead
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.schema import Candidate, Hardware, KernelTask
from tests.evaluator.pretended_gpu import call_on_pretended_gpu, compiling_ladder, kernels_in
from tests.paths import CORPUS
from tests.sample import in_sample

PROBLEM = re.compile('problem = "(.+)"')


@pytest.fixture(scope="module")
def ladder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GpulessLadder]:
    with compiling_ladder(tmp_path_factory.mktemp("judge")) as made:
        yield made


def candidate_of(source: str) -> Candidate:
    return Candidate(source=source, author="t", stage="tensor_tiling", mode="tune", config={})


NAMES = ("softmax_autotuned", "softmax_online", "matmul_by_descriptors")


@pytest.mark.parametrize("name", in_sample(NAMES, NAMES[:1]))
def test_processes_on_the_gpu_find_their_kernels_compiled(
    ladder: GpulessLadder, h200: Hardware, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(cache_filling, "RECORD_SECONDS", 60.0)  # the first job waits for imports, long on a busy host
    source = (CORPUS / "right" / f"{name}.py").read_text()
    reference = (CORPUS / "problems" / f"{PROBLEM.search(source)[1]}.py").read_text()
    task = KernelTask(name=name, reference=reference, target=h200, precision="tf32")
    candidates = [candidate_of(source), candidate_of(source + "\nimport socket\n")]
    with compiled_ahead(ladder, Problem(task, 1, torch.device("cpu")), candidates) as compiled:
        assert compiled.rejected[0] is None and compiled.rejected[1] is not None
        assert not kernels_in(compiled.folders[1]), "what the gate rejects is not compiled"
        folder = compiled.folders[0]
        before = kernels_in(folder)
        assert len(before) > (1 if "autotuned" in name else 0), "every tuning configuration is compiled"
        call_on_pretended_gpu([(folder, reference, {})], h200)
        assert kernels_in(folder) == before, "nothing was compiled again"
    assert not folder.exists()


SCALE = """
import torch
import triton
import triton.language as tl

BLOCK, STEP, UNUSED, HALF = 1024, 2, 0, False


@triton.jit
def scale_kernel(x_ptr, out_ptr, n, step, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n, other=0.0) * step, mask=i < n)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        scale_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, out, x.numel(), STEP, BLOCK=BLOCK)
        return out.mul(1.0) if HALF else out
"""
DOUBLE = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2


def get_inputs():
    return [torch.randn(64, 1024)]
"""


def test_configurations_that_compile_to_one_program_are_told(
    ladder: GpulessLadder, h200: Hardware, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a comment, nor a knob that nothing reads, nor a line further down makes another program."""
    monkeypatch.setattr(cache_filling, "RECORD_SECONDS", 60.0)
    monkeypatch.setattr(cache_filling, "COMPILE_SECONDS", 60.0)
    changes = ["", "# the same\nUNUSED = 1", "BLOCK = 512", "STEP = 3", "HALF = True"]
    sources = [SCALE.replace("\n\n\n@triton", f"\n{change}\n\n\n@triton") for change in changes]
    task = KernelTask(name="double", reference=DOUBLE, target=h200, precision="ieee")
    problem = Problem(task, 1, torch.device("cpu"))
    with compiled_ahead(ladder, problem, [candidate_of(source) for source in sources]) as compiled:
        assert all(compiled.fingerprints)
        assert [compiled.same_as(number) for number in range(len(changes))] == [0, 0, 2, 3, 4]

"""What a candidate must not do besides answering right, on a GPU; and what it may."""

from collections.abc import Iterator

import pytest
import torch

from egg_graph.evaluator import LocalEvaluator, gpu_present
from egg_graph.evaluator.device.access import access_to
from egg_graph.evaluator.gpu import arena
from egg_graph.schema import Candidate, Evaluation, Hardware, KernelTask

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not gpu_present(), reason="no NVIDIA GPU on this machine")]

REFERENCE = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(width))

    def forward(self, x):
        return torch.relu(x) * self.scale

rows = 2048
width = 1024

def get_inputs():
    return [torch.randn(rows, width)]

def get_init_inputs():
    return [width]
"""
SOURCE = """
import torch
import triton
import triton.language as tl

@triton.jit
def scaled_relu(x, w, y, total, width, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = i < total
    value = tl.load(x + i, mask=inside, other=0.0)
    scale = tl.load(w + i % width, mask=inside, other=0.0)
    tl.store(y + i, tl.maximum(value, 0.0) * scale, mask=inside)
    EXTRA

class ModelNew(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.randn(width))

    def run(self, x, w, y):
        scaled_relu[(triton.cdiv(x.numel(), 1024),)](x, w, y, x.numel(), x.shape[1], BLOCK=1024)
        return y

    def forward(self, x):
        BODY
"""
HONEST = "return self.run(x, self.scale, torch.empty_like(x))"


def source(*lines: str, extra: str = "") -> str:
    return SOURCE.replace("EXTRA", extra).replace("BODY", "\n        ".join(lines))


@pytest.fixture(scope="module")
def on_gpu() -> Iterator[LocalEvaluator]:
    with LocalEvaluator(device="gpu", timeout=12) as local:
        yield local


def evaluated(on_gpu: LocalEvaluator, h200: Hardware, text: str, *, finalist: bool = False) -> Evaluation:
    task = KernelTask(name="scaled_relu", reference=REFERENCE, target=h200)
    candidate = Candidate(source=text, author="test", stage="algorithmic_structure", mode="seed")
    return on_gpu.evaluate(task, candidate, finalist=finalist)


WORKSPACE = """if getattr(self, "work", None) is None or self.work.shape != x.shape:
            self.work = torch.empty_like(x)
        self.run(x, self.scale, self.work)
        return self.run(x, self.scale, torch.empty_like(x))"""
GRAPH = """if not hasattr(self, "graphs"):
            self.graphs = {}
        if x.data_ptr() not in self.graphs:
            static = torch.empty_like(x)
            self.run(x, self.scale, static)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self.run(x, self.scale, static)
            self.graphs[x.data_ptr()] = (graph, static, x)
        graph, static, _ = self.graphs[x.data_ptr()]
        graph.replay()
        return static.clone()"""
JOINED = """other = torch.cuda.Stream()
        y = torch.empty_like(x)
        other.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(other):
            self.run(x, self.scale, y)
        torch.cuda.current_stream().wait_stream(other)
        return y"""


@pytest.mark.parametrize("body", [HONEST, WORKSPACE, GRAPH, JOINED], ids=["plain", "workspace", "graph", "stream"])
def test_an_honest_kernel_passes(on_gpu: LocalEvaluator, h200: Hardware, body: str) -> None:
    evaluation = evaluated(on_gpu, h200, source(body))
    assert evaluation.usable, evaluation.findings
    outcomes = {rung.name: rung.outcome for rung in evaluation.rungs}
    assert outcomes["correctness_full"] == outcomes["other_inputs"] == outcomes["integrity"] == "passed", (
        evaluation.rungs
    )
    assert evaluation.integrity is not None


def test_a_finalist_is_repeated(on_gpu: LocalEvaluator, h200: Hardware) -> None:
    evaluation = evaluated(on_gpu, h200, source(HONEST), finalist=True)
    assert evaluation.usable, evaluation.findings
    statements = {rung.name: rung.statement for rung in evaluation.rungs}
    assert "bit for bit" in statements["repeats"]
    assert "sanitizer" in statements


MEMO = """key = (id(x), x.data_ptr(), x._version)
        if getattr(self, "key", None) != key:
            self.key, self.kept = key, self.run(x, self.scale, torch.empty_like(x))
        return self.kept.clone()"""
FROZEN_GRAPH = """if not hasattr(self, "graph"):
            self.x, self.y = x.clone(), torch.empty_like(x)
            self.run(self.x, self.scale, self.y)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.run(self.x, self.scale, self.y)
        self.graph.replay()
        return self.y.clone()"""
REUSED = """if getattr(self, "y", None) is None or self.y.shape != x.shape:
            self.y = torch.empty_like(x)
        return self.run(x, self.scale, self.y)"""
FOLDED = """if not hasattr(self, "folded"):
            self.folded = self.scale.detach().clone()
        return self.run(x, self.folded, torch.empty_like(x))"""
DRIFTING = """y = self.run(x, self.scale, torch.empty_like(x))
        self.scale.data.mul_(1.0000001)
        return y"""
FIG_LEAF = """self.run(x[:1], self.scale, torch.empty_like(x[:1]))
        return torch.relu(x) * self.scale"""
BEYOND = "tl.store(x + i + total, value, mask=inside & (i < 16))"
BEFORE = "tl.store(x + i - 4, value, mask=i < 4)"
BAD = [
    ("memo", source(MEMO), "replayed_output"),
    ("frozen graph", source(FROZEN_GRAPH), "replayed_output"),
    ("reused buffer", source(REUSED), "aliased_output"),
    ("folded weights", source(FOLDED), "wrong_values"),
    ("drifting weights", source(DRIFTING), "parameter_mutated"),
    ("fig leaf", source(FIG_LEAF), "not_causal"),
    ("writes beyond", source(HONEST, extra=BEYOND), "out_of_bounds"),
    ("writes before", source(HONEST, extra=BEFORE), "out_of_bounds"),
    ("expanded", source("y = " + HONEST[7:], "return y[:1].expand_as(y)"), "wrong_strides"),
    ("on the CPU", source("return (" + HONEST[7:] + ").cpu()"), "wrong_device"),
    ("one shape", source("assert tuple(x.shape) == (2048, 1024)", HONEST), "specialised_to_shape"),
    (
        "reads beyond",
        source(HONEST).replace("x + i, mask=inside", "x + i + (i == total - 1), mask=inside"),
        "out_of_bounds",
    ),
]


def test_a_kernel_that_refuses_other_numbers_of_rows_is_right_at_half_the_width(
    on_gpu: LocalEvaluator, h200: Hardware
) -> None:
    evaluation = evaluated(on_gpu, h200, source("assert x.shape[0] == 2048", HONEST))
    assert evaluation.usable, evaluation.reason
    assert any("which it refuses: AssertionError" in told for told in evaluation.not_proven), evaluation.not_proven


@pytest.mark.parametrize(("text", "kind"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_what_is_wrong_beside_the_values_has_a_name(
    on_gpu: LocalEvaluator, h200: Hardware, text: str, kind: str
) -> None:
    evaluation = evaluated(on_gpu, h200, text)
    assert not evaluation.usable
    assert kind in {finding.kind for finding in evaluation.findings}, evaluation.findings


ENDLESS = """first = tl.load(w, volatile=True)
    while first == first:
        first = tl.load(w, volatile=True)"""
FAULTS = [
    ("illegal access", source(HONEST, extra="tl.store(y + i + (1 << 45), value, mask=inside)"), "out_of_bounds"),
    ("endless", source(HONEST, extra=ENDLESS), "timeout"),
    ("hog", source("self.hog = torch.empty(1 << 38, device='cuda')", HONEST), "memory_exceeded"),
]


@pytest.mark.parametrize(("text", "kind"), [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS])
def test_after_a_fault_the_next_evaluation_is_right(
    on_gpu: LocalEvaluator, h200: Hardware, text: str, kind: str
) -> None:
    spoiled = evaluated(on_gpu, h200, text)
    assert spoiled.findings[0].kind == kind, spoiled.findings
    assert evaluated(on_gpu, h200, source(HONEST)).usable


def test_memory_taken_by_another_way_than_pytorchs_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    import ctypes

    monkeypatch.setattr(arena, "CONTEXT", 1 << 28)
    torch.cuda.init()
    torch.cuda.synchronize()
    with access_to("gpu").alone_throughout():  # it cannot tell who took it
        watch = arena.MemoryLimit(0.0)
        kept = torch.empty(1 << 29, dtype=torch.uint8, device="cuda")
        assert watch() is None
        del kept
        pointer, driver = ctypes.c_uint64(), ctypes.CDLL("libcuda.so.1")
        assert driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(1 << 29)) == 0
        try:
            found = watch()
        finally:
            driver.cuMemFree_v2(pointer)
    assert found is not None
    assert found.kind == "memory_exceeded"

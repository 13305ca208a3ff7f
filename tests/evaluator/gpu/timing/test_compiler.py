"""torch.compile of the baseline lets others measure, takes turns to run, and has the GPU alone for what it measures."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from egg_graph.evaluator import gpu_present
from egg_graph.evaluator.device.access import GpuAccess
from egg_graph.evaluator.gpu.timing import baseline
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.schema import Hardware, KernelTask

SEARCHING = (
    "import torch\nfrom torch import nn\n\nclass Model(nn.Module):\n    def forward(self, ends, tokens, numbers):\n"
    "        return numbers[torch.searchsorted(ends, tokens, right=True)]\n\nn = 64\n\n"
    "def get_inputs():\n    ends = 4 * torch.arange(1, n + 1)\n"
    "    return [ends, torch.randint(0, 4 * n, (512,)), torch.randn(n)]\n"
)


class Told(GpuAccess):
    """Notes what it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[str] = []

    @contextmanager
    def noted(self, name: str) -> Iterator[None]:
        self.done.append(name)
        yield
        self.done.append(f"end of {name}")

    def away(self) -> object:
        return self.noted("away")

    def computing(self) -> object:
        return self.noted("computing")

    def measuring(self) -> object:
        return self.noted("measuring")


def test_what_the_compiler_measures_it_measures_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    heuristics = pytest.importorskip("torch._inductor.runtime.triton_heuristics")
    autotuner, access = heuristics.CachingAutotuner, Told()
    monkeypatch.setattr(
        autotuner, "benchmark_all_configs", lambda self: access.done.append("measures") or {"fastest": 1.0}
    )
    kernel = object.__new__(autotuner)
    with baseline.considerate_compiler(access):
        assert kernel.benchmark_all_configs() == {"fastest": 1.0}
    assert access.done == ["away", "measuring", "measures", "end of measuring", "end of away"]
    access.done.clear()
    kernel.benchmark_all_configs()
    assert access.done == ["measures"], "PyTorch is as it was"


@pytest.mark.gpu
@pytest.mark.skipif(not gpu_present(), reason="no NVIDIA GPU on this machine")
def test_the_first_call_of_what_was_compiled_is_alone_and_later_ones_take_turns() -> None:
    access, ones = Told(), torch.ones(8, device="cuda")

    def twice(x: torch.Tensor) -> torch.Tensor:
        return x.sin() * 2

    compiled = torch.compile(twice)
    with baseline.considerate_compiler(access):
        assert torch.allclose(compiled(ones), twice(ones))
        first, access.done = access.done, []
        compiled(ones)
    assert first[:2] == ["away", "measuring"] and first[-1] == "end of measuring"
    assert access.done == ["computing", "end of computing", "end of away"]
    compiled(ones)
    assert len(access.done) == 3


@pytest.fixture
def searching(h200: Hardware, monkeypatch: pytest.MonkeyPatch) -> baseline.PyTorchBaseline:
    """A baseline that has compiled nothing yet, of a reference that searches."""
    pytest.importorskip("torch._inductor.runtime.triton_heuristics")
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device=None: None)
    problem = Problem(KernelTask(name="rows", reference=SEARCHING, target=h200, precision="ieee"), 7)
    made = object.__new__(baseline.PyTorchBaseline)
    made.problem, made.precision, made._access, made.notes = problem, "ieee", GpuAccess(), []
    made.case = next(problem.full_cases())
    made.inputs = made.case.inputs
    return made


@pytest.mark.parametrize("off", [0, 1])
def test_code_that_searches_is_first_run_without_assertions_and_left_out_if_it_answers_otherwise(
    off: int, searching: baseline.PyTorchBaseline, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def compile_off(model: Callable[..., torch.Tensor], options: dict[str, Any] | None = None) -> object:
        asked.append(options)
        return lambda ends, tokens, numbers: model(ends, tokens, numbers.roll(-off))

    monkeypatch.setattr(torch, "compile", compile_off)
    compiled = searching._compiled(searching.case.model)
    if off:
        assert compiled is None
        assert asked == [{"assert_indirect_indexing": False}]
        assert "answers otherwise than eager PyTorch" in searching.notes[0]
    else:
        assert compiled is not None and torch.equal(compiled(), searching.case.leaves[0].expected.float())
        assert asked == [{"assert_indirect_indexing": False}, None]

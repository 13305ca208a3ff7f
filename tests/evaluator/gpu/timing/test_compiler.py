"""torch.compile of the baseline lets others measure, takes turns to run, and has the GPU alone for what it measures."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from egg_graph.evaluator import gpu_present
from egg_graph.evaluator.device.access import GpuAccess
from egg_graph.evaluator.gpu.timing import baseline


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

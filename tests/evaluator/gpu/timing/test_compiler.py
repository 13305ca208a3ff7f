"""torch.compile of the baseline shares the GPU, but for what it measures itself."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from egg_graph.evaluator.gpu.timing import baseline


def test_what_the_compiler_measures_it_measures_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    heuristics = pytest.importorskip("torch._inductor.runtime.triton_heuristics")
    autotuner, done = heuristics.CachingAutotuner, []
    monkeypatch.setattr(autotuner, "precompile", lambda self: done.append("compiles"))
    monkeypatch.setattr(autotuner, "benchmark_all_configs", lambda self: done.append("measures") or {"fastest": 1.0})
    monkeypatch.setattr(baseline, "give_way", lambda: done.append("gives way"))

    @contextmanager
    def alone() -> Iterator[None]:
        done.append("alone")
        yield
        done.append("shared")

    kernel = object.__new__(autotuner)
    with baseline.considerate_compiler(alone):
        kernel.precompile()
        assert kernel.benchmark_all_configs() == {"fastest": 1.0}
    assert done == ["gives way", "compiles", "alone", "measures", "shared"]
    done.clear()
    kernel.precompile()
    assert done == ["compiles"], "PyTorch is as it was"

"""The roofline bound by hand-made launches."""

import pytest

from egg_graph.evaluator.gpuless.roofline import LAUNCH_FLOOR, bound, dot_peak
from egg_graph.evaluator.wire.launches import FakeRun, Launch, LibraryCall


def launch(**fields):
    base = {"kernel": "k", "line": 1, "grid": (1, 1, 1), "signature": {}, "programs": 1, "executed": 1}
    return Launch(**{**base, **fields})


def test_memory_bound_launch(h200):
    found = bound(FakeRun(launches=(launch(compulsory_bytes=4.8e9, load_bytes=9e9, store_bytes=1e9),)), h200, "tf32")
    assert found.milliseconds == pytest.approx(1.0)
    assert found.limiter == "dram" and found.launches == 1 and found.requested_bytes == 1e10


def test_compute_bound_launch_runs_at_the_peak_of_its_own_precision(h200):
    for name, seconds in (("fp32/tf32", 1 / 494e12), ("fp32/ieee", 1 / 67e12), ("bf16", 1 / 989e12)):
        found = bound(FakeRun(launches=(launch(least_dot_flops={name: 1e12}),)), h200, "ieee")
        assert found.milliseconds == pytest.approx(1e15 * seconds) and found.limiter == "compute"
    assert dot_peak(h200, "fp32/tf32x3") == pytest.approx(494e12 / 3)
    assert dot_peak(h200, "fp8e5") == 2 * 989e12


def test_small_launches_cost_at_least_a_launch_each(h200):
    found = bound(FakeRun(launches=(launch(compulsory_bytes=1e3),) * 10), h200, "tf32")
    assert found.milliseconds == pytest.approx(1e3 * 10 * LAUNCH_FLOOR) and found.limiter == "launch"


def test_library_calls_count_at_the_policys_precision(h200):
    run = FakeRun(launches=(), library=(LibraryCall(name="aten.mm", bytes=1e6, flops=494e9, dtype="float32"),))
    assert bound(run, h200, "tf32").milliseconds == pytest.approx(1.0)
    assert bound(run, h200, "ieee").milliseconds == pytest.approx(494 / 67)
    assert bound(run, h200, "tf32").launches == 1


def test_missing_figure_is_an_error(h200):
    poor = h200.model_copy(update={"figures": {"dram_bandwidth": h200.figures["dram_bandwidth"]}})
    with pytest.raises(KeyError, match="peak_tf32"):
        bound(FakeRun(launches=(launch(least_dot_flops={"fp32/tf32": 1.0}),)), poor, "tf32")

"""What the driver is asked: GPUs in order, versions, refusals, no driver, and a driver without nvidia-ml-py."""

import sys
from types import SimpleNamespace

import pytest

from egg_graph.evaluator.device import nvml
from egg_graph.evaluator.device.detect import gpu_present, visible_gpus
from egg_graph.schema import InfrastructureError


class Refused(Exception):
    pass


def refuse(*_: object) -> None:
    raise Refused


def driver(**answers: object) -> SimpleNamespace:
    """A `pynvml` for a machine with two GPUs."""
    given = {
        "NVMLError": Refused,
        "closed": 0,
        "nvmlInit": lambda: None,
        "nvmlDeviceGetCount": lambda: 2,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetName": lambda handle: f"GPU {handle}",
        "nvmlDeviceGetUUID": lambda handle: f"GPU-uuid-{handle}",
        "nvmlSystemGetDriverVersion": lambda: "570.86.15",
        "nvmlSystemGetCudaDriverVersion_v2": lambda: 12080,
    }
    made = SimpleNamespace(**{**given, **answers})
    made.nvmlShutdown = lambda: setattr(made, "closed", made.closed + 1)
    return made


def ask(monkeypatch: pytest.MonkeyPatch, pynvml: object) -> nvml.Driver:
    monkeypatch.setitem(sys.modules, "pynvml", pynvml)
    return nvml.query_driver()


def test_gpus_come_in_the_drivers_order_with_its_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    pynvml = driver()
    told = ask(monkeypatch, pynvml)
    assert told == nvml.Driver(("GPU 0", "GPU 1"), ("GPU-uuid-0", "GPU-uuid-1"), "570.86.15", "12.8")
    assert pynvml.closed == 1
    assert gpu_present()
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": "1"}) == ("GPU-uuid-1",)


def test_what_the_driver_refuses_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def second_alone(index: int) -> int:
        return index if index == 1 else refuse()  # type: ignore[return-value]

    told = ask(monkeypatch, driver(nvmlDeviceGetHandleByIndex=second_alone, nvmlSystemGetDriverVersion=refuse))
    assert told == nvml.Driver(("GPU 1",), ("GPU-uuid-1",), None, "12.8")
    assert ask(monkeypatch, driver(nvmlDeviceGetCount=refuse)).names == ()


def test_without_a_driver_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    pynvml = driver(nvmlInit=refuse)
    assert ask(monkeypatch, pynvml) == nvml.Driver()
    assert not gpu_present()
    assert pynvml.closed == 0


@pytest.mark.parametrize("installed", [False, True])
def test_a_missing_package_hides_no_gpu(monkeypatch: pytest.MonkeyPatch, installed: bool) -> None:
    monkeypatch.setattr(nvml, "_driver_installed", lambda: installed)
    monkeypatch.setitem(sys.modules, "pynvml", None)
    if installed:
        with pytest.raises(InfrastructureError, match="pip install nvidia-ml-py"):
            gpu_present()
    else:
        assert not gpu_present()
        assert visible_gpus() == ()

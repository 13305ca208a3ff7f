"""What NVML tells of a GPU, by a stand-in for `pynvml`, and what is said where the package is missing."""

import os
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from egg_graph.evaluator.device.state import read_gpu_state
from egg_graph.schema import GpuState, InfrastructureError


class NvmlError(Exception):
    """Raised by the stand-in for what a driver does not support."""


def refuse(*arguments: Any) -> Any:
    raise NvmlError


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A driver that tells everything but the temperature."""
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(uuid="12-34"))
    module = SimpleNamespace(
        NVMLError=NvmlError,
        NVML_CLOCK_SM=1,
        NVML_CLOCK_MEM=2,
        NVML_TEMPERATURE_GPU=0,
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetHandleByUUID=lambda uuid: uuid,
        nvmlDeviceGetClockInfo=lambda handle, clock: {1: 1980, 2: 2619}[clock],
        nvmlDeviceGetTemperature=refuse,
        nvmlDeviceGetPowerUsage=lambda handle: 123_400,
        nvmlDeviceGetCurrentClocksThrottleReasons=lambda handle: 0x1 | 0x4 | 0x40,
        nvmlDeviceGetUtilizationRates=lambda handle: SimpleNamespace(gpu=7, memory=3),
        nvmlDeviceGetComputeRunningProcesses=lambda handle: [SimpleNamespace(pid=os.getpid()), SimpleNamespace(pid=1)],
    )
    monkeypatch.setitem(sys.modules, "pynvml", module)
    return module


def test_the_state_has_units_and_leaves_out_what_is_not_told(nvml: SimpleNamespace) -> None:
    assert read_gpu_state() == GpuState(
        sm_clock_mhz=1980.0,
        memory_clock_mhz=2619.0,
        temperature_c=None,
        power_w=123.4,
        throttle_reasons=("software power cap", "hardware thermal slowdown"),
        utilisation_percent=7.0,
        other_processes=1,
    )


@pytest.mark.parametrize("function", ["nvmlInit", "nvmlDeviceGetHandleByUUID"])
def test_a_driver_that_tells_nothing_leaves_everything_open(nvml: SimpleNamespace, function: str) -> None:
    setattr(nvml, function, refuse)
    assert read_gpu_state() == GpuState()


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(InfrastructureError, match="pip install nvidia-ml-py"):
        read_gpu_state()

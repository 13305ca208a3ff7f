"""Read the GPU's clocks, temperature, power, throttling and other processes from NVML (nvidia-ml-py, `pynvml`)."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from egg_graph.schema import GpuState, InfrastructureError

THROTTLE_REASONS = {
    0x0000000000000004: "software power cap",
    0x0000000000000008: "hardware slowdown",
    0x0000000000000020: "software thermal slowdown",
    0x0000000000000040: "hardware thermal slowdown",
    0x0000000000000080: "hardware power brake",
}
"""Reasons for a lower clock that disturb a measurement, by NVML's bit. Idleness and an administrator's settings are
left out: they do not."""


def read_gpu_state() -> GpuState:
    """Read the state of the current CUDA device. What NVML does not tell is None.

    Raises:
        InfrastructureError: if nvidia-ml-py is not installed.
    """
    try:
        import pynvml
    except ImportError:
        raise InfrastructureError(
            "the GPU's clocks and other processes cannot be read: pip install nvidia-ml-py"
        ) from None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return GpuState()
    try:
        handle = _ask(pynvml, "nvmlDeviceGetHandleByUUID", f"GPU-{torch.cuda.get_device_properties(0).uuid}")
        return GpuState() if handle is None else _state_of(pynvml, handle)
    finally:
        pynvml.nvmlShutdown()


def _state_of(nvml: ModuleType, handle: Any) -> GpuState:
    def number(function: str, *arguments: int) -> float | None:
        value = _ask(nvml, function, handle, *arguments)
        return None if value is None else float(value)

    milliwatts = number("nvmlDeviceGetPowerUsage")
    reasons = _ask(nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", handle) or 0
    utilisation = _ask(nvml, "nvmlDeviceGetUtilizationRates", handle)
    return GpuState(
        sm_clock_mhz=number("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM),
        memory_clock_mhz=number("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_MEM),
        temperature_c=number("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU),
        power_w=None if milliwatts is None else milliwatts / 1e3,
        throttle_reasons=tuple(reason for bit, reason in THROTTLE_REASONS.items() if reasons & bit),
        utilisation_percent=None if utilisation is None else float(utilisation.gpu),
        other_processes=_count_other_processes(nvml, handle),
    )


def _count_other_processes(nvml: ModuleType, handle: Any) -> int | None:
    """Count the compute processes that do not belong to this judge; None if NVML does not list them."""
    processes = _ask(nvml, "nvmlDeviceGetComputeRunningProcesses", handle)
    return None if processes is None else sum(not _is_related(process.pid) for process in processes)


def _ask(nvml: ModuleType, function: str, *arguments: Any) -> Any:
    """Call one NVML function; None if this GPU or driver does not support it."""
    question: Callable[..., Any] = getattr(nvml, function)
    with suppress(nvml.NVMLError):
        return question(*arguments)
    return None


def _is_related(pid: int) -> bool:
    """Whether a process descends from the process that started this judge."""
    starter = os.getppid()
    while pid > 1:
        if pid in (starter, os.getpid()):
            return True
        parent = 0
        with suppress(OSError, ValueError, IndexError):  # the process is gone, or not visible from here
            parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        pid = parent
    return False

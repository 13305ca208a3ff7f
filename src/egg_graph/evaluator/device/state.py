"""What the driver says of the GPU: clocks, temperature, power, throttling; and whether somebody else is using it."""

from __future__ import annotations

import ctypes
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from egg_graph.evaluator.device.driver import BareGpu
from egg_graph.schema import GpuState

THROTTLE = {
    0x0000000000000004: "software power cap",
    0x0000000000000008: "hardware slowdown",
    0x0000000000000020: "software thermal slowdown",
    0x0000000000000040: "hardware thermal slowdown",
    0x0000000000000080: "hardware power brake",
}
"""Reasons for a lower clock that disturb a measurement; idleness and settings made by an administrator do not."""
MOST_PROCESSES = 128
WATCHED_NS = 4_000_000
"""How long one look at the GPU's clock takes."""
TAKEN_AWAY_NS = 100_000
"""A step of the GPU's clock as seen by a running kernel that means: another process ran in between."""
PATIENCE = 5.0
"""Seconds to wait for others to finish."""
LOOKS, PAUSE = 25, 0.02
"""Looks at the GPU before anybody is blamed for what its clocks tell, and seconds between two of them."""
FEWEST_TAKEN = 2
"""Looks in which the GPU was taken away that mean others: one alone may be the driver's."""


class _Utilisation(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class _Process(ctypes.Structure):
    _fields_ = [
        ("pid", ctypes.c_uint),
        ("memory", ctypes.c_ulonglong),
        ("instance", ctypes.c_uint),
        ("compute", ctypes.c_uint),
    ]


def state() -> GpuState:
    """The current device as NVML sees it; nothing but None where NVML is missing."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return GpuState()
    if nvml.nvmlInit_v2() != 0:
        return GpuState()
    try:
        handle = ctypes.c_void_p()
        uuid = f"GPU-{torch.cuda.get_device_properties(0).uuid}"
        if nvml.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(handle)) != 0:
            return GpuState()
        return _state(nvml, handle)
    finally:
        nvml.nvmlShutdown()


def _state(nvml: Any, handle: ctypes.c_void_p) -> GpuState:
    number, reasons, used = ctypes.c_uint(), ctypes.c_ulonglong(), _Utilisation()

    def ask(function: str, *arguments: int) -> float | None:
        return float(number.value) if getattr(nvml, function)(handle, *arguments, ctypes.byref(number)) == 0 else None

    power = ask("nvmlDeviceGetPowerUsage")
    throttled = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle, ctypes.byref(reasons)) == 0
    utilised = nvml.nvmlDeviceGetUtilizationRates(handle, ctypes.byref(used)) == 0
    return GpuState(
        sm_clock_mhz=ask("nvmlDeviceGetClockInfo", 1),
        memory_clock_mhz=ask("nvmlDeviceGetClockInfo", 2),
        temperature_c=ask("nvmlDeviceGetTemperature", 0),
        power_w=None if power is None else power / 1e3,
        throttle_reasons=tuple(w for bit, w in THROTTLE.items() if reasons.value & bit) if throttled else (),
        utilisation_percent=float(used.gpu) if utilised else None,
        other_processes=_others(nvml, handle),
    )


def _others(nvml: Any, handle: ctypes.c_void_p) -> int | None:
    """Compute processes that are none of this library's; None where NVML does not tell."""
    count = ctypes.c_uint(MOST_PROCESSES)
    listed = (_Process * MOST_PROCESSES)()
    if nvml.nvmlDeviceGetComputeRunningProcesses_v3(handle, ctypes.byref(count), listed) != 0:
        return None
    return sum(not _related(listed[index].pid) for index in range(count.value))


def _related(pid: int) -> bool:
    """Whether a process descends from the one that started this judge."""
    above = os.getppid()
    while pid > 1:
        if pid in (above, os.getpid()):
            return True
        parent = 0
        with suppress(OSError, ValueError, IndexError):  # gone meanwhile, or not visible from here
            parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        pid = parent
    return False


def resolution_ns(gpu: BareGpu) -> int:
    """Smallest step of the GPU's own clock."""
    return _watched(gpu, 200_000)[1]


def busy(gpu: BareGpu, patience: float = PATIENCE) -> str:
    """Who else uses the GPU, after waiting for them; empty when nobody does.

    A kernel reads the clock without pause: a GPU that is shared is taken from it now and then, and the clock jumps.
    """
    until = time.monotonic() + patience
    while True:
        longest = sorted(_watched(gpu, WATCHED_NS)[0] for _ in range(3))[1]  # one jump alone may be the driver's
        if longest < TAKEN_AWAY_NS:
            return ""
        if time.monotonic() > until:
            break
        time.sleep(0.2)
    seen = state()
    others = "" if seen.other_processes is None else f", {seen.other_processes} other compute processes listed"
    used = "" if seen.utilisation_percent is None else f", {seen.utilisation_percent:.0f} % utilised"
    return f"the GPU is busy with other work (a kernel was interrupted for {longest / 1e3:.0f} us{used}{others})"


def disturbed(gpu: BareGpu, before: GpuState) -> str:
    """Who else may have used the GPU since `before`; empty where nobody did as far as can be seen.

    Unlike `busy` it does not wait until they are gone: what was measured meanwhile stays spoiled. Others may compute
    now and then, so it looks longer, and at who has come since.
    """
    taken = []
    for _ in range(LOOKS):
        longest = _watched(gpu, WATCHED_NS)[0]
        taken += [longest] if longest >= TAKEN_AWAY_NS else []
        time.sleep(PAUSE)
    now = state()
    if len(taken) >= FEWEST_TAKEN:
        return (
            f"the GPU is busy with other work (a kernel was interrupted for {max(taken) / 1e3:.0f} us, in {len(taken)} "
            f"of {LOOKS} looks)"
        )
    if before.other_processes is not None and (now.other_processes or 0) > before.other_processes:
        listed = f"{now.other_processes} other compute processes listed, {before.other_processes} before"
        return f"the GPU is busy with other work ({listed})"
    return ""


def _watched(gpu: BareGpu, nanoseconds: int) -> tuple[int, int]:
    """Largest and smallest step of the GPU's clock during so many nanoseconds."""
    steps = torch.zeros(2, dtype=torch.int64, device="cuda")
    torch.cuda.synchronize()
    gpu.watch(steps.data_ptr(), nanoseconds)
    gpu.wait()
    longest, shortest = steps.tolist()
    return longest, shortest

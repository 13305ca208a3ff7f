"""Find out whether other processes use the GPU, by a kernel that reads the GPU's clock without pause.

When the GPU switches to another process, the clock jumps as the kernel sees it. `read_gpu_state` adds what NVML lists.
"""

from __future__ import annotations

import time

import torch

from egg_graph.evaluator.device.driver import CudaDriver
from egg_graph.evaluator.device.state import read_gpu_state
from egg_graph.schema import GpuState

WATCH_NS = 4_000_000
"""How long one look at the GPU's clock takes [ns]."""
SWITCH_NS = 100_000
"""Smallest step of the GPU's clock that means that another process ran in between [ns]."""
PATIENCE_SECONDS = 5.0
"""How long `wait_until_idle` waits for other processes, unless it is told otherwise [s]."""
RETRY_SECONDS = 0.2
"""Pause between two tries of `wait_until_idle` [s]."""
LOOKS, PAUSE_SECONDS = 25, 0.02
"""How often `find_disturbance` looks at the GPU's clock, and the pause after each look [s]."""
FEWEST_SWITCHES = 2
"""Fewest looks with a switch that prove other processes; a single one may come from the driver."""


def measure_clock_resolution(driver: CudaDriver) -> int:
    """Return the smallest step of the GPU's own clock [ns]."""
    return clock_steps(driver, 200_000)[1]


def wait_until_idle(driver: CudaDriver, seconds: float = PATIENCE_SECONDS) -> str:
    """Wait until no other process uses the GPU.

    Args:
        driver: the GPU.
        seconds: time to wait.

    Returns:
        Why the GPU is still busy; empty if it is idle.
    """
    until = time.monotonic() + seconds
    while True:
        longest = sorted(clock_steps(driver, WATCH_NS)[0] for _ in range(3))[1]  # a single switch may be the driver's
        if longest < SWITCH_NS:
            return ""
        if time.monotonic() > until:
            break
        time.sleep(RETRY_SECONDS)
    seen = read_gpu_state()
    others = "" if seen.other_processes is None else f", {seen.other_processes} other compute processes listed"
    used = "" if seen.utilisation_percent is None else f", {seen.utilisation_percent:.0f} % utilised"
    return f"the GPU is busy with other work (a kernel was interrupted for {longest / 1e3:.0f} us{used}{others})"


def find_disturbance(driver: CudaDriver, before: GpuState) -> str:
    """Look for other processes that may have disturbed a measurement.

    It does not wait until they are gone, as `wait_until_idle` does: what they disturbed stays disturbed. Others may
    compute now and then only, so it looks more often, and it asks NVML who has come since.

    Args:
        driver: the GPU.
        before: state of the GPU before the measurement.

    Returns:
        What was seen of others; empty if nothing was.
    """
    switches = []
    for _ in range(LOOKS):
        longest = clock_steps(driver, WATCH_NS)[0]
        switches += [longest] if longest >= SWITCH_NS else []
        time.sleep(PAUSE_SECONDS)
    now = read_gpu_state()
    if len(switches) >= FEWEST_SWITCHES:
        return (
            f"the GPU is busy with other work (a kernel was interrupted for {max(switches) / 1e3:.0f} us, in "
            f"{len(switches)} of {LOOKS} looks)"
        )
    if before.other_processes is not None and (now.other_processes or 0) > before.other_processes:
        listed = f"{now.other_processes} other compute processes listed, {before.other_processes} before"
        return f"the GPU is busy with other work ({listed})"
    return ""


def clock_steps(driver: CudaDriver, nanoseconds: int) -> tuple[int, int]:
    """Watch the GPU's clock for so many nanoseconds; returns its largest and its smallest step [ns]."""
    steps = torch.zeros(2, dtype=torch.int64, device="cuda")
    torch.cuda.synchronize()
    driver.watch_clock(steps.data_ptr(), nanoseconds)
    driver.synchronize()
    longest, shortest = steps.tolist()
    return longest, shortest

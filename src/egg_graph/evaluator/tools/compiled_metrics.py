"""The profiling metrics that follow from what the compiler tells: registers, shared memory, warps and the grid.

Nothing is measured: the limits of the target's data sheet say how many programs fit, in how many waves a grid runs, and
how full the last one is. Every other metric is missing, with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from egg_graph.evaluator.device.residency import residency, waves
from egg_graph.schema import STAGE_METRICS, Hardware, KernelResources, Metric, Profile, StageName

NOT_MEASURED = "needs Nsight Compute on a GPU"
"""Why a metric is missing where nothing was profiled."""
LAST_WAVE = "last_wave_fullness"
"""Part of the GPU's places for programs that the last wave fills [%]: what is left is the tail effect."""
_LIMITS = tuple(f"launch__occupancy_limit_{what}" for what in ("blocks", "registers", "shared_mem", "warps"))
FURTHER: dict[StageName, tuple[str, ...]] = {
    "parallel_mapping": (LAST_WAVE,),
    "tensor_tiling": (*_LIMITS, "launch__waves_per_multiprocessor", LAST_WAVE),
}
"""What is told of a stage beside its metrics, where it is known."""


def metrics_of(stage: StageName | None) -> tuple[str, ...]:
    """Return the names of a stage's metrics; those of all stages, each once, if no stage is given."""
    if stage is not None:
        return STAGE_METRICS[stage]
    return tuple(dict.fromkeys(name for names in STAGE_METRICS.values() for name in names))


def profile_from_compiler(
    resources: Sequence[KernelResources],
    stage: StageName | None,
    hardware: Hardware,
    why: str = NOT_MEASURED,
    kernel: str = "",
) -> Profile:
    """Make a profile of the metrics that follow from what the compiler knows; the others are missing, with the reason.

    Args:
        resources: what the compiler tells of all kernels.
        stage: selects the metrics; None selects those of all stages.
        hardware: the target that the kernels were compiled for.
        why: reason why there is no better source.
        kernel: name of the kernel to describe; the one with the largest grid if empty.

    Raises:
        KeyError: if the target's data sheet lacks a figure.
    """
    named = [r for r in resources if r.kernel == kernel] or list(resources)
    if not named:
        return Profile(source="none", why=why)
    chosen = max(named, key=lambda r: math.prod(r.grid))
    known = {**_launched(chosen, hardware), **_resident(chosen, hardware)}
    wanted = (*metrics_of(stage), *(FURTHER.get(stage, ()) if stage is not None else (LAST_WAVE,)))
    stages = set(metrics_of(stage))
    metrics = {
        name: known.get(name, Metric(missing=why)) for name in dict.fromkeys(wanted) if name in stages or name in known
    }
    return Profile(source="compiled", metrics=metrics, kernel=chosen.kernel, why=why)


def _launched(kernel: KernelResources, hardware: Hardware) -> dict[str, Metric]:
    """What the launch itself says."""
    threads = int(hardware.figure("warp_size")) * kernel.num_warps
    known = {
        "launch__grid_size": Metric(value=math.prod(kernel.grid), unit="block"),
        "launch__block_size": Metric(value=threads, unit="thread/block"),
        "launch__shared_mem_per_block_dynamic": Metric(value=kernel.shared_bytes, unit="byte/block"),
    }
    if kernel.registers is not None:
        known["launch__registers_per_thread"] = Metric(value=kernel.registers, unit="register/thread")
    if kernel.occupancy is not None:
        known["sm__maximum_warps_per_active_cycle_pct"] = Metric(value=100 * kernel.occupancy, unit="%")
    return known


def _resident(kernel: KernelResources, hardware: Hardware) -> dict[str, Metric]:
    """How many programs are resident, by what limits them, and the waves of the grid."""
    found = residency(hardware, warps=kernel.num_warps, registers=kernel.registers, shared=kernel.shared_bytes)
    limits = (found.by_blocks, found.by_registers, found.by_shared_memory, found.by_warps)
    known = {
        name: Metric(value=limit, unit="block")
        for name, limit in zip(_LIMITS, limits, strict=True)
        if limit is not None
    }
    if kernel.registers is not None and (run := waves(hardware, math.prod(kernel.grid), found.programs)):
        known["launch__waves_per_multiprocessor"] = Metric(value=round(run[0], 3))
        known[LAST_WAVE] = Metric(value=round(100 * run[1], 1), unit="%")
    return known

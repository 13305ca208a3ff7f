"""Profiling metrics by stage (paper, App. F): which ones, from the compiled kernel alone or from Nsight Compute."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from egg_graph.schema import STAGE_METRICS, KernelResources, Metric, Profile, StageName

TIME = "gpu__time_duration.sum"
NOT_MEASURED = "needs Nsight Compute on a GPU"


def metrics_of(stage: StageName | None) -> tuple[str, ...]:
    """The stage's metrics; every one, each once, where no stage is given."""
    if stage is not None:
        return STAGE_METRICS[stage]
    return tuple(dict.fromkeys(name for names in STAGE_METRICS.values() for name in names))


def compiled_profile(resources: Sequence[KernelResources], stage: StageName | None, why: str = NOT_MEASURED) -> Profile:
    """What the compiler alone tells of the stage's metrics; the rest is missing, with the reason.

    Of several kernels, the one with the largest grid stands for all.
    """
    if not resources:
        return Profile(source="none")
    kernel = max(resources, key=lambda r: _product(r.grid))
    known = {
        "launch__grid_size": Metric(value=_product(kernel.grid), unit="block"),
        "launch__block_size": Metric(value=32 * kernel.num_warps, unit="thread/block"),
        "launch__shared_mem_per_block_dynamic": Metric(value=kernel.shared_bytes, unit="byte/block"),
    }
    if kernel.registers is not None:
        known["launch__registers_per_thread"] = Metric(value=kernel.registers, unit="register/thread")
    if kernel.occupancy is not None:
        known["sm__maximum_warps_per_active_cycle_pct"] = Metric(value=100 * kernel.occupancy, unit="%")
    return Profile(
        source="compiled", metrics={name: known.get(name, Metric(missing=why)) for name in metrics_of(stage)}
    )


def parse_ncu(text: str, stage: StageName | None) -> Profile | None:
    """Metrics of the kernel that took longest, from `ncu --csv --page raw`; None if there is no table in it."""
    lines = text.splitlines()
    head = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if head is None:
        return None
    rows = list(csv.DictReader(io.StringIO("\n".join(lines[head:]))))
    if len(rows) < 2:
        return None
    units, kernels = rows[0], rows[1:]
    longest = max(kernels, key=lambda row: _number(row.get(TIME)) or 0.0)
    metrics = {}
    for name in metrics_of(stage):
        value = _number(longest.get(name))
        missing = "" if value is not None else "Nsight Compute gave no value"
        metrics[name] = Metric(value=value, unit=units.get(name) or "", missing=missing)
    return Profile(source="ncu", metrics=metrics)


def _number(text: str | None) -> float | None:
    try:
        return float((text or "").replace(",", ""))
    except ValueError:
        return None


def _product(grid: Sequence[int]) -> int:
    product = 1
    for size in grid:
        product *= size
    return product

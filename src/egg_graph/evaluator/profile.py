"""Profiling metrics by stage (paper, App. F): which ones, from the compiled kernel alone or from Nsight Compute."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from egg_graph.schema import KernelResources, Metric, Profile, StageName

MAPPING = (
    "launch__grid_size",
    "launch__block_size",
    "launch__waves_per_multiprocessor",
    "sm__maximum_warps_per_active_cycle_pct",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "launch__occupancy_limit_registers",
    "launch__occupancy_limit_shared_mem",
    "smsp__warps_eligible.avg.per_cycle_active",
    "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
)
TILING = (
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "sm__inst_executed_pipe_tensor.sum",
    "launch__registers_per_thread",
    "launch__shared_mem_per_block_dynamic",
    "smsp__inst_executed_op_local_ld.sum",
    "smsp__inst_executed_op_local_st.sum",
    "smsp__average_warps_issue_stalled_math_pipe_throttle_per_issue_active.ratio",
    "smsp__average_warps_issue_stalled_short_scoreboard_per_issue_active.ratio",
)
MEMORY = (
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "l1tex__t_sector_hit_rate.pct",
    "lts__t_sector_hit_rate.pct",
    "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio",
    "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",
)
TIME = "gpu__time_duration.sum"
METRICS: dict[StageName, tuple[str, ...]] = {
    "algorithmic_structure": (
        TIME,
        "sm__throughput.avg.pct_of_peak_sustained_elapsed",
        "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
        "dram__throughput.avg.pct_of_peak_sustained_elapsed",
        "sm__warps_active.avg.pct_of_peak_sustained_active",
    ),
    "parallel_mapping": (TIME, *MAPPING),
    "tensor_tiling": (TIME, *TILING),
    "memory_optimization": (TIME, *MEMORY),
}
"""Names as Nsight Compute writes them; all exist on compute capability 9.0."""
NOT_MEASURED = "needs Nsight Compute on a GPU"


def metrics_of(stage: StageName | None) -> tuple[str, ...]:
    """The stage's metrics; every one, each once, where no stage is given."""
    if stage is not None:
        return METRICS[stage]
    return tuple(dict.fromkeys(name for names in METRICS.values() for name in names))


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

"""Profiling metrics by stage (paper, App. F): from Nsight Compute, from a trace of the device, or from the compiler.

Every metric has a value with its unit, or the reason why it has none.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from egg_graph.evaluator.device import ncu
from egg_graph.evaluator.device.ncu import TIME
from egg_graph.evaluator.tools.device_trace import Trace
from egg_graph.schema import STAGE_METRICS, KernelResources, Metric, Profile, StageName

NOT_MEASURED = "needs Nsight Compute on a GPU"


def metrics_of(stage: StageName | None) -> tuple[str, ...]:
    """The stage's metrics; every one, each once, where no stage is given."""
    if stage is not None:
        return STAGE_METRICS[stage]
    return tuple(dict.fromkeys(name for names in STAGE_METRICS.values() for name in names))


def compiled_profile(
    resources: Sequence[KernelResources], stage: StageName | None, why: str = NOT_MEASURED, kernel: str = ""
) -> Profile:
    """What the compiler alone tells of the stage's metrics; the rest is missing, with the reason.

    Args:
        resources: of all kernels.
        stage: whose metrics are asked for.
        why: there is nothing better.
        kernel: the one to describe; the one with the largest grid if empty.
    """
    named = [r for r in resources if r.kernel == kernel] or list(resources)
    if not named:
        return Profile(source="none", why=why)
    chosen = max(named, key=lambda r: _product(r.grid))
    known = {
        "launch__grid_size": Metric(value=_product(chosen.grid), unit="block"),
        "launch__block_size": Metric(value=32 * chosen.num_warps, unit="thread/block"),
        "launch__shared_mem_per_block_dynamic": Metric(value=chosen.shared_bytes, unit="byte/block"),
    }
    if chosen.registers is not None:
        known["launch__registers_per_thread"] = Metric(value=chosen.registers, unit="register/thread")
    if chosen.occupancy is not None:
        known["sm__maximum_warps_per_active_cycle_pct"] = Metric(value=100 * chosen.occupancy, unit="%")
    metrics = {name: known.get(name, Metric(missing=why)) for name in metrics_of(stage)}
    return Profile(source="compiled", metrics=metrics, kernel=chosen.kernel, why=why)


def traced_profile(trace: Trace, resources: Sequence[KernelResources], stage: StageName | None, why: str) -> Profile:
    """What a trace of the device tells: durations and launches as they ran; the compiler fills in the rest."""
    main = trace.own[0]
    profile = compiled_profile(resources, stage, why, main.name)
    known: dict[str, tuple[float | None, str]] = {
        TIME: (1000 * main.us / main.count, "ns"),
        "launch__grid_size": (_product(main.grid) if main.grid else None, "block"),
        "launch__block_size": (_product(main.block) if main.block else None, "thread/block"),
        "launch__registers_per_thread": (main.registers, "register/thread"),
        "launch__shared_mem_per_block_dynamic": (main.shared, "byte/block"),
    }
    metrics = dict(profile.metrics) or {name: Metric(missing=why) for name in metrics_of(stage)}
    for name, (value, unit) in known.items():
        if name in metrics and value is not None:
            metrics[name] = Metric(value=value, unit=unit)
    return Profile(source="cupti", metrics=metrics, kernel=main.name, shares=trace.shares, why=why)


def parse_ncu(
    text: str,
    stage: StageName | None,
    *,
    own: Collection[str] = (),
    absent: Sequence[str] = (),
    whole: float = 1.0,
) -> Profile | None:
    """Metrics of the kernel with the largest share of time, from `ncu --csv --page raw --print-units base`.

    Of several launches of it, the longest stands for all.

    Args:
        text: what `ncu` wrote; a candidate may have written into it too.
        stage: whose metrics are asked for.
        own: names of the candidate's kernels; empty takes any.
        absent: metrics that this GPU does not have.
        whole: part of the forward's GPU time that all own kernels take together.

    Returns:
        None if there is no table, or no launch of an own kernel in it.
    """
    table = ncu.parse(text)
    rows = [row for row in table.rows if not own or row.name in own] if table is not None else []
    if table is None or not rows:
        return None
    shares = ncu.shares(rows)
    main = max(shares, key=lambda name: shares[name]) if shares else rows[0].name
    longest = max((row for row in rows if row.name == main), key=lambda row: row.nanoseconds)
    return Profile(
        source="ncu",
        metrics={name: ncu.metric(table, longest, name, absent) for name in metrics_of(stage)},
        kernel=main,
        shares={name: round(whole * share, 4) for name, share in shares.items()},
    )


def _product(grid: Sequence[int]) -> int:
    product = 1
    for size in grid:
        product *= size
    return product

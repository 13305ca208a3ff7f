"""Profiling metrics by stage (paper, App. F), from Nsight Compute, from a device trace, or from the compiler.

Every metric has a value with its unit, or the reason why it has none.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from egg_graph.evaluator.device import ncu
from egg_graph.evaluator.device.ncu import TIME
from egg_graph.evaluator.tools.compiled_metrics import metrics_of, profile_from_compiler
from egg_graph.evaluator.tools.device_trace import DeviceTrace
from egg_graph.schema import Hardware, KernelResources, Metric, Profile, StageName


def profile_from_trace(
    trace: DeviceTrace, resources: Sequence[KernelResources], stage: StageName | None, hardware: Hardware, why: str
) -> Profile:
    """Make a profile of durations and launches in a device trace; the compiler fills in what it knows.

    Args:
        trace: of one forward; it holds an own kernel.
        resources: what the compiler tells of all kernels.
        stage: selects the metrics; None selects those of all stages.
        hardware: the target.
        why: reason why there are no hardware counters.
    """
    longest = trace.own[0]
    profile = profile_from_compiler(resources, stage, hardware, why, longest.name)
    known: dict[str, tuple[float | None, str]] = {
        TIME: (1000 * longest.us / longest.count, "ns"),
        "launch__grid_size": (math.prod(longest.grid) if longest.grid else None, "block"),
        "launch__block_size": (math.prod(longest.block) if longest.block else None, "thread/block"),
        "launch__registers_per_thread": (longest.registers, "register/thread"),
        "launch__shared_mem_per_block_dynamic": (longest.shared, "byte/block"),
    }
    metrics = dict(profile.metrics) or {name: Metric(missing=why) for name in metrics_of(stage)}
    for name, (value, unit) in known.items():
        if name in metrics and value is not None:
            metrics[name] = Metric(value=value, unit=unit)
    return Profile(source="cupti", metrics=metrics, kernel=longest.name, shares=trace.shares, why=why)


def profile_from_ncu(
    text: str,
    stage: StageName | None,
    *,
    own: Collection[str] = (),
    absent: Sequence[str] = (),
    own_share: float = 1.0,
) -> Profile | None:
    """Make a profile of the kernel with the largest share of time, from `ncu --csv --page raw --print-units base`.

    If that kernel was launched several times, the metrics are those of the longest launch.

    Args:
        text: what `ncu` wrote; a candidate may have written into it too.
        stage: selects the metrics; None selects those of all stages.
        own: names of the candidate's kernels; if empty, every kernel counts.
        absent: metrics that this GPU does not have.
        own_share: part of the forward's GPU time that all own kernels take together, 0 to 1.

    Returns:
        None if the text holds no table, or the table no launch of an own kernel.
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
        shares={name: round(own_share * share, 4) for name, share in shares.items()},
    )

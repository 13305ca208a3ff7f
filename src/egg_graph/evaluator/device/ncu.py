"""Nsight Compute's table and what it means for metrics: units as it gives them, and a reason for every gap."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from egg_graph.schema import Metric

TIME = "gpu__time_duration.sum"
DENIED = "ERR_NVGPUCTRPERM"
UNITS = {
    "launch__grid_size": "block",
    "launch__block_size": "thread/block",
    "launch__waves_per_multiprocessor": "wave",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum": "conflict",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum": "conflict",
}
"""Of metrics that Nsight Compute prints without one."""
BYPASSED = re.compile(
    r"l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_(ld|st)|"
    r"smsp__sass_average_data_bytes_per_sector_mem_global_op_(ld|st)"
)
"""Metrics of the load-store unit, which bulk copies (TMA) and asynchronous copies do not pass."""
UNKNOWN_METRIC = re.compile(r"Failed to find metric[^\w]*(?:regex:)?\^?([\w.]+?)(?:\.\*|\$)?\s*$", re.MULTILINE)
CELL = 200
"""Characters of a cell that are kept."""


@dataclass(frozen=True)
class KernelRow:
    """One profiled launch."""

    name: str
    nanoseconds: float
    values: Mapping[str, float | None]


@dataclass(frozen=True)
class Table:
    """What `ncu --csv --page raw` printed."""

    rows: tuple[KernelRow, ...]
    units: Mapping[str, str]


def parse(text: str) -> Table | None:
    """The table in a report printed in base units (`--print-units base`); None if there is none."""
    lines = text.splitlines()
    head = next((i for i, line in enumerate(lines) if line.startswith('"ID"') and '"Kernel Name"' in line), None)
    if head is None:
        return None
    try:
        found = list(csv.DictReader(io.StringIO("\n".join(lines[head:]))))
    except csv.Error:  # the candidate can write into the file
        return None
    if len(found) < 2:
        return None
    units = {str(name): (unit or "")[:CELL] for name, unit in found[0].items() if isinstance(unit, str)}
    rows = []
    for row in found[1:]:
        values = {name: _number(row.get(name)) for name in units}
        rows.append(KernelRow(str(row.get("Kernel Name") or "")[:CELL], values.get(TIME) or 0.0, values))
    return Table(tuple(rows), units)


def unknown_metrics(text: str) -> tuple[str, ...]:
    """Names of metrics that this GPU does not have, from the messages of `ncu`."""
    return tuple(dict.fromkeys(UNKNOWN_METRIC.findall(text)))


def shares(rows: Sequence[KernelRow]) -> dict[str, float]:
    """Part of the profiled launches' time, by kernel, largest first."""
    total = sum(row.nanoseconds for row in rows)
    spent: dict[str, float] = {}
    for row in rows:
        spent[row.name] = spent.get(row.name, 0.0) + row.nanoseconds
    return {name: ns / total for name, ns in sorted(spent.items(), key=lambda item: -item[1])} if total else {}


def metric(table: Table, row: KernelRow, name: str, absent: Sequence[str]) -> Metric:
    """One metric of one launch."""
    value = row.values.get(name)
    if name in absent:
        return Metric(missing="this GPU has no such metric")
    if not value and (found := BYPASSED.match(name)):
        what = "load" if "ld" in found.groups() else "store"
        return Metric(
            missing=f"no plain {what} passes the load-store unit: bulk and asynchronous copies (TMA, cp.async) and "
            "atomics bypass these counters; see l1tex__m_* and lts__*"
        )
    if value is None:
        return Metric(missing="Nsight Compute gave no value")
    return Metric(value=value, unit=table.units.get(name) or UNITS.get(name, ""))


def _number(text: str | None) -> float | None:
    try:
        value = float((text or "").replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def complaints(text: str) -> str:
    """What `ncu` itself said was wrong, capped."""
    return "; ".join(line[:CELL] for line in text.splitlines() if line.startswith(("==ERROR==", "==WARNING==")))[:400]

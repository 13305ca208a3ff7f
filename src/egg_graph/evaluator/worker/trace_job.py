"""The device's own word on one forward: every kernel, copy and fill on every stream, from PyTorch's profiler (CUPTI).

A job of a fresh confined process. What it returns is small: rows by kernel name, capped.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

KINDS = {"kernel": "kernel", "gpu_memcpy": "copy", "gpu_memset": "fill"}
"""Categories of PyTorch's trace that are work of the device."""
SPIN = "spin_kernel"
"""What `torch.cuda._sleep` launches: the evaluator's own, to let the host queue the forward."""
ROWS, NAME_LENGTH = 64, 200


def run(payload: dict[str, Any], folder: Path, channel: int) -> dict[str, Any]:
    """Warm up, trace one forward, and tell what ran.

    Returns:
        `rows` (name, kind, count, microseconds, and for kernels grid, block, registers, shared bytes, occupancy [%]),
        `busy_ms` (union of all intervals), `streams`, and `launches` (own launches of one forward, by kernel); or
        `why`, where CUPTI gave nothing.
    """
    import torch

    from egg_graph.evaluator.worker import recorder
    from egg_graph.evaluator.worker.single_forward import prepare, warm

    recorder.attend()
    forward = prepare(folder, payload)
    warm(forward)
    seen = recorder.watch(forward, folder / "candidate.py")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        torch.cuda._sleep(recorder.SPIN_CYCLES)
        forward()
        torch.cuda.synchronize()
    table = folder / "trace.json"
    profiler.export_chrome_trace(str(table))
    found = device_rows(json.loads(table.read_text())["traceEvents"])
    if not found["rows"]:
        return {"why": "the profiler saw no kernel: CUPTI is not available here"}
    launches: dict[str, int] = {}
    for launch in seen["launches"]:
        launches[launch["kernel"]] = launches.get(launch["kernel"], 0) + 1
    return {**found, "launches": launches}


def device_rows(events: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Work of the device by name, longest first, and how long it was busy. `events` are of PyTorch's trace."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    intervals: list[tuple[float, float]] = []
    streams = set()
    for event in events:
        kind, name = KINDS.get(event.get("cat", "")), str(event.get("name", ""))
        if kind is None or SPIN in name:
            continue
        start, took, about = float(event["ts"]), float(event["dur"]), event.get("args", {})
        intervals.append((start, start + took))
        streams.add(about.get("stream"))
        row = rows.setdefault(
            (kind, name[:NAME_LENGTH]), {"name": name[:NAME_LENGTH], "kind": kind, "count": 0, "us": 0.0}
        )
        row["count"] += 1
        row["us"] += took
        if kind == "kernel":
            row |= {
                "grid": about.get("grid"),
                "block": about.get("block"),
                "registers": about.get("registers per thread"),
                "shared": about.get("shared memory"),
                "occupancy": about.get("est. achieved occupancy %"),
            }
    longest = sorted(rows.values(), key=lambda row: -row["us"])
    return {"rows": longest[:ROWS], "busy_ms": _union(intervals) / 1000, "streams": len(streams)}


def _union(intervals: list[tuple[float, float]]) -> float:
    """Length of what the intervals cover together."""
    total, until = 0.0, float("-inf")
    for start, end in sorted(intervals):
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total

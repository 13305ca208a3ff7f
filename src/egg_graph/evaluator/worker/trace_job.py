"""Trace one forward on the device: every kernel, copy and fill on every stream, by PyTorch's profiler (CUPTI).

The job runs in a fresh confined process. Once everything but the traced forward is done, it waits for the judge's go,
who then holds the GPU alone. It returns one row per kernel name, at most `MOST_ROWS`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

READY = "trace.ready"
"""File in the job's folder that is there once the job waits for the go."""
KINDS = {"kernel": "kernel", "gpu_memcpy": "copy", "gpu_memset": "fill"}
"""Kind of device work, by category of PyTorch's trace."""
SPIN_KERNEL = "spin_kernel"
"""Kernel that `torch.cuda._sleep` launches. The evaluator uses it to queue the forward ahead, so it does not count."""
MOST_ROWS = 64
"""Most rows that are returned."""
LONGEST_NAME = 200
"""Characters of a name that are kept."""


def run(payload: dict[str, Any], folder: Path, channel: int) -> dict[str, Any]:
    """Warm up, wait for the go, trace one forward, and summarise what ran.

    Args:
        payload: as `tools.job_files.write_case` made it.
        folder: holds the candidate, the saved weights and the inputs.
        channel: socket on which the go comes, one line.

    Returns:
        What `summarise_device_work` returns, and `launches` (own launches of one forward, by kernel); or `why` alone,
        if CUPTI gave nothing.
    """
    import torch

    from egg_graph.evaluator.worker import recorder
    from egg_graph.evaluator.worker.single_forward import load_forward, warm_up

    torch.cuda.init()  # else PyTorch loads NVML for the candidate's first call, and the tripwire takes that for its own
    recorder.record_captures()
    forward = load_forward(folder, payload)
    warm_up(forward)
    seen = recorder.record_forward(forward, folder / "candidate.py")
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities):  # the first one of a process takes seconds
        torch.cuda.synchronize()
    (folder / READY).touch()
    with os.fdopen(channel, "rb", closefd=False) as judge:
        judge.readline()
    with torch.profiler.profile(activities=activities) as profiler:
        torch.cuda._sleep(recorder.SPIN_CYCLES)
        forward()
        torch.cuda.synchronize()
    table = folder / "trace.json"
    profiler.export_chrome_trace(str(table))
    found = summarise_device_work(json.loads(table.read_text())["traceEvents"])
    if not found["rows"]:
        return {"why": "the profiler saw no kernel: CUPTI is not available here"}
    launches: dict[str, int] = {}
    for launch in seen["launches"]:
        launches[launch["kernel"]] = launches.get(launch["kernel"], 0) + 1
    return {**found, "launches": launches}


def summarise_device_work(events: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Summarise the device's work in a trace.

    Args:
        events: of PyTorch's Chrome trace (times in microseconds).

    Returns:
        `rows`, longest first (name, kind, count, `us` [microseconds], and for kernels grid, block, registers per
        thread, shared memory [bytes], occupancy [%]), `busy_ms` (union of all intervals [ms]) and `streams` (count).
    """
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    intervals: list[tuple[float, float]] = []
    streams = set()
    for event in events:
        kind, name = KINDS.get(event.get("cat", "")), str(event.get("name", ""))
        if kind is None or SPIN_KERNEL in name:
            continue
        start, took, about = float(event["ts"]), float(event["dur"]), event.get("args", {})
        intervals.append((start, start + took))
        streams.add(about.get("stream"))
        row = rows.setdefault(
            (kind, name[:LONGEST_NAME]), {"name": name[:LONGEST_NAME], "kind": kind, "count": 0, "us": 0.0}
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
    return {"rows": longest[:MOST_ROWS], "busy_ms": _covered(intervals) / 1000, "streams": len(streams)}


def _covered(intervals: list[tuple[float, float]]) -> float:
    """Return the length that the intervals cover together."""
    total, until = 0.0, float("-inf")
    for start, end in sorted(intervals):
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total

"""Nsight Compute on one steady-state forward of a candidate, in a confined process of its own.

The job starts `ncu`, which starts `python -m egg_graph.evaluator.worker.profile_job FOLDER`: that one loads the
candidate, warms it up (an autotuner chooses then), and runs the forward that is profiled. Clocks are left as they are.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from egg_graph.evaluator.device import ncu
from egg_graph.evaluator.worker import single_forward

REPORT = "ncu.csv"
MOST_LAUNCHES = 20
"""Of the candidate's kernels in one forward; each is run again for every group of counters."""


def run(payload: dict[str, Any], folder: Path, channel: int) -> dict[str, Any]:
    """Run `ncu`; its table is left in `ncu.csv` of the folder.

    A GPU that lacks some of the metrics refuses them all: it is asked again without those, which are returned.
    """
    single_forward.leave_order(folder, payload)
    environment = {**os.environ, "PYTHONPATH": payload["python_path"]}
    metrics, absent = list(payload["metrics"]), []
    for _ in range(2):
        status = subprocess.run(command(folder, payload["kernels"], metrics), env=environment, check=False).returncode
        report = folder / REPORT
        unknown = ncu.unknown_metrics(report.read_text(errors="replace")) if report.exists() else ()
        absent += [name for name in metrics if name in unknown]
        metrics = [name for name in metrics if name not in unknown]
        if not unknown:
            break
    return {"status": status, "absent": absent}


def command(folder: Path, kernels: Sequence[str], metrics: Sequence[str]) -> list[str]:
    """The command line: own kernels by exact name, and only between the profiler's start and stop."""
    return [
        *("ncu", "--clock-control", "none", "--csv", "--page", "raw", "--print-units", "base"),
        *("--profile-from-start", "off", "--launch-count", str(MOST_LAUNCHES)),
        *("--log-file", str(folder / REPORT), "-k", f"regex:^({'|'.join(kernels)})$"),
        *("--metrics", ",".join(metrics), sys.executable, "-m", __name__, str(folder)),
    ]


def main(folder: Path) -> None:
    """The profiled program."""
    import torch

    forward = single_forward.prepare(folder, single_forward.read_order(folder))
    single_forward.warm(forward)
    torch.cuda.cudart().cudaProfilerStart()
    forward()
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

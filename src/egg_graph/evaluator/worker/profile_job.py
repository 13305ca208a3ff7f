"""Profile one steady-state forward of a candidate with Nsight Compute, in a confined process of its own.

The job starts `ncu`, which starts `python -m egg_graph.evaluator.worker.profile_job FOLDER`. That program loads the
candidate, warms it up (an autotuner chooses then), and runs the profiled forward. The GPU's clocks are not locked.
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
"""File in the job's folder that `ncu` writes."""
STEPS = "ncu.steps"
"""File in the job's folder that tells when the watched program had done what."""
MOST_LAUNCHES = 20
"""Most launches of one forward that are profiled; `ncu` runs each again for every group of counters."""


def run(payload: dict[str, Any], folder: Path, channel: int) -> dict[str, Any]:
    """Run `ncu`, which leaves its table in `ncu.csv` of the folder.

    A GPU that lacks some of the metrics refuses all of them, so `ncu` runs once more without those.

    Returns:
        `status`, the exit status of `ncu`, and `absent`, the metrics that this GPU lacks.
    """
    environment = {**os.environ, "PYTHONPATH": payload["python_path"]}
    metrics, absent = list(payload["metrics"]), []
    for _ in range(2):
        single_forward.write_payload(folder, payload)
        status = subprocess.run(command(folder, payload["kernels"], metrics), env=environment, check=False).returncode
        report = folder / REPORT
        unknown = ncu.unknown_metrics(report.read_text(errors="replace")) if report.exists() else ()
        absent += [name for name in metrics if name in unknown]
        metrics = [name for name in metrics if name not in unknown]
        if not unknown:
            break
    return {"status": status, "absent": absent}


def command(folder: Path, kernels: Sequence[str], metrics: Sequence[str]) -> list[str]:
    """Return the command line of `ncu`: kernels by exact name, and only between the profiler's start and stop."""
    return [
        *("ncu", "--clock-control", "none", "--csv", "--page", "raw", "--print-units", "base"),
        *("--profile-from-start", "off", "--launch-count", str(MOST_LAUNCHES)),
        *("--target-processes", "application-only"),
        *("--log-file", str(folder / REPORT), "-k", f"regex:^({'|'.join(kernels)})$"),
        *("--metrics", ",".join(metrics), sys.executable, "-P", "-m", __name__, str(folder)),
    ]


def main(folder: Path) -> None:
    """Run the profiled program."""
    import torch

    payload, steps = single_forward.read_payload(folder), folder / STEPS
    single_forward.tell_step(steps, payload, "imported")
    forward = single_forward.load_forward(folder, payload)
    single_forward.tell_step(steps, payload, "loaded")
    single_forward.warm_up(forward)
    single_forward.tell_step(steps, payload, "warm")
    torch.cuda.cudart().cudaProfilerStart()
    forward()
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStop()
    single_forward.tell_step(steps, payload, "profiled")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Profile one steady-state forward of a candidate with Nsight Compute, in a confined process of its own.

The job starts `ncu`, which starts `python -m egg_graph.evaluator.worker.profile_job FOLDER`. That program imports
PyTorch, which opens no GPU, and waits. Once the judge sends the case, it loads the candidate; once it says go, it warms
that up (an autotuner chooses then), and runs the profiled forward. The GPU's clocks are not locked.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from egg_graph.evaluator.device import ncu
from egg_graph.evaluator.wire.untrusted import new_file
from egg_graph.evaluator.worker import single_forward, waiting_program

REPORT = "ncu.csv"
"""File in the job's folder that `ncu` writes."""
LOG = "ncu.log"
"""File in the job's folder with what `ncu` and the watched program print."""
STEPS = "ncu.steps"
"""File in the job's folder that tells when the watched program had done what, counted from the case, then the go."""
READY = "ncu.ready"
"""File in the job's folder that is there once the watched program waits for the case."""
LOADED = "ncu.loaded"
"""File in the job's folder that is there once the watched program has loaded the case."""
MOST_LAUNCHES = 20
"""Most launches of one forward that are profiled; `ncu` runs each again for every group of counters."""


def run(payload: dict[str, Any], folder: Path, channel: int) -> dict[str, Any]:
    """Run `ncu`, which leaves its table in `ncu.csv` of the folder.

    A GPU that lacks some of the metrics refuses all of them, so `ncu` runs once more without those.

    Args:
        payload: `kernels`, `metrics` and `python_path`; what else the program needs comes with the case.
        folder: holds the candidate.
        channel: socket on which case and go come (see `waiting_program`).

    Returns:
        `status`, the exit status of `ncu`, and `absent`, the metrics that this GPU lacks.
    """
    case = waiting_program.new_case(folder)
    environment = {**os.environ, "PYTHONPATH": payload["python_path"], waiting_program.CASE: case.name}
    metrics, absent = list(payload["metrics"]), []
    with new_file(folder / LOG) as log:
        for _ in range(2):
            words = command(folder, payload["kernels"], metrics)
            watched = subprocess.Popen(words, env=environment, stdout=log, stderr=log)
            if not waiting_program.go_of(case).exists():
                waiting_program.pass_on(channel, case, partial(_runs, watched))
            status, report = watched.wait(), folder / REPORT
            unknown = ncu.unknown_metrics(report.read_text(errors="replace")) if report.exists() else ()
            absent += [name for name in metrics if name in unknown]
            metrics = [name for name in metrics if name not in unknown]
            if not unknown:
                break
    return {"status": status, "absent": absent}


def _runs(process: subprocess.Popen[bytes]) -> bool:
    return process.poll() is None


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
    """Run the watched program."""
    import torch
    import triton  # noqa: F401 - the candidate's own import of it then takes no time

    payload, steps = waiting_program.wait_for_case(folder, folder / READY), folder / STEPS
    single_forward.tell_step(steps, payload, "imported")
    forward = single_forward.load_forward(folder, payload)
    single_forward.tell_step(steps, payload, "loaded")
    go = waiting_program.wait_for_go(folder, folder / LOADED)
    single_forward.warm_up(forward)
    single_forward.tell_step(steps, go, "warm")
    torch.cuda.cudart().cudaProfilerStart()
    forward()
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStop()
    single_forward.tell_step(steps, go, "profiled")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

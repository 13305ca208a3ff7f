"""Profile one steady-state forward of a candidate with Nsight Compute, in a confined process of its own.

The job starts `ncu`, which starts `python -m egg_graph.evaluator.worker.profile_job FOLDER`. That program imports
PyTorch, which opens no GPU, and waits. Once the judge sends the case, it loads the candidate, warms it up (an autotuner
chooses then), and runs the profiled forward. The GPU's clocks are not locked.

The judge sends the case on the job's channel, and the job passes it on in a file whose name the program alone knows:
the candidate's own process may still be at work in the folder, and nothing that it leaves there counts as the go.
"""

from __future__ import annotations

import json
import os
import secrets
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from egg_graph.evaluator.device import ncu
from egg_graph.evaluator.wire.untrusted import new_file
from egg_graph.evaluator.worker import single_forward

REPORT = "ncu.csv"
"""File in the job's folder that `ncu` writes."""
LOG = "ncu.log"
"""File in the job's folder with what `ncu` and the watched program print."""
STEPS = "ncu.steps"
"""File in the job's folder that tells when the watched program had done what, counted from the go."""
READY = "ncu.ready"
"""File in the job's folder that is there once the watched program waits for the go."""
GO = "EGG_GRAPH_GO"
"""Environment variable of the watched program: name of the file in the job's folder that holds the case."""
POLL = 0.01
"""Seconds between two looks for the go."""
MOST_LAUNCHES = 20
"""Most launches of one forward that are profiled; `ncu` runs each again for every group of counters."""


def run(payload: dict[str, Any], folder: Path, channel: int) -> dict[str, Any]:
    """Run `ncu`, which leaves its table in `ncu.csv` of the folder.

    A GPU that lacks some of the metrics refuses all of them, so `ncu` runs once more without those.

    Args:
        payload: `kernels`, `metrics` and `python_path`; what else the program needs comes with the go.
        folder: holds the candidate.
        channel: socket on which the go comes, one line: the payload of `tools.job_files.write_case`.

    Returns:
        `status`, the exit status of `ncu`, and `absent`, the metrics that this GPU lacks.
    """
    go = folder / f"{secrets.token_hex(16)}.json"
    environment = {**os.environ, "PYTHONPATH": payload["python_path"], GO: go.name}
    metrics, absent = list(payload["metrics"]), []
    with new_file(folder / LOG) as log:
        for _ in range(2):
            words = command(folder, payload["kernels"], metrics)
            watched = subprocess.Popen(words, env=environment, stdout=log, stderr=log)
            if not go.exists() and _go_comes(channel, watched):
                single_forward.write_payload(go, _read_line(channel))
            status, report = watched.wait(), folder / REPORT
            unknown = ncu.unknown_metrics(report.read_text(errors="replace")) if report.exists() else ()
            absent += [name for name in metrics if name in unknown]
            metrics = [name for name in metrics if name not in unknown]
            if not unknown:
                break
    return {"status": status, "absent": absent}


def _go_comes(channel: int, watched: subprocess.Popen[bytes]) -> bool:
    """Wait for the judge's go; False if the watched program ends before."""
    while watched.poll() is None:
        if select.select([channel], [], [], POLL)[0]:
            return True
    return False


def _read_line(channel: int) -> dict[str, Any]:
    with os.fdopen(channel, "rb", closefd=False) as judge:
        payload: dict[str, Any] = json.loads(judge.readline())
    return payload


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

    payload, steps = _wait_for_case(folder), folder / STEPS
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


def _wait_for_case(folder: Path) -> dict[str, Any]:
    """Wait for the go, without the GPU; its time is limited by the judge."""
    from egg_graph.evaluator.host import candidate  # noqa: F401 - what loads the candidate is imported by then

    go = folder / os.environ[GO]
    (folder / READY).touch()
    while not go.exists():
        time.sleep(POLL)
    return single_forward.read_payload(go)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

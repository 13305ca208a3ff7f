"""Run a candidate's forward under compute-sanitizer, in a confined process of its own.

The job starts the tool, which starts `python -m egg_graph.evaluator.worker.sanitize_job FOLDER`. PyTorch's caching
allocator is off: every tensor is an allocation of the driver, so the tool knows where each tensor ends.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from egg_graph.evaluator.worker import single_forward

REPORT = "sanitizer.txt"
"""File in the job's folder that the tool writes."""
PROGRAM = "compute-sanitizer"
MOST_REPORTS = 200
"""Most complaints that the tool prints."""
PADDING = 4096
"""Unowned memory behind every allocation [bytes]: an access past one tensor's end must not land in the next tensor."""


def run(payload: dict[str, Any], folder: Path, channel: int) -> dict[str, Any]:
    """Run `payload["tool"]`, which leaves its report in `sanitizer.txt` of the folder; returns its exit `status`."""
    single_forward.write_payload(folder, payload)
    command = [
        *(PROGRAM, "--tool", payload["tool"], "--log-file", str(folder / REPORT)),
        *(("--padding", str(PADDING)) if payload["tool"] == "memcheck" else ()),
        *("--print-limit", str(MOST_REPORTS), "--show-backtrace", "no", "--target-processes", "application-only"),
        *(sys.executable, "-m", __name__, str(folder)),
    ]
    environment = {
        **os.environ,
        "PYTHONPATH": payload["python_path"],
        "PYTORCH_NO_CUDA_MEMORY_CACHING": "1",
        "PYTORCH_CUDA_ALLOC_CONF": "",
    }
    return {"status": subprocess.run(command, env=environment, check=False).returncode}


def main(folder: Path) -> None:
    """Run the watched program: the first forward compiles and tunes, the second is warm; the tool sees both."""
    import torch

    forward = single_forward.load_forward(folder, single_forward.read_payload(folder))
    forward()
    forward()
    torch.cuda.synchronize()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""compute-sanitizer on one forward of a candidate, in a confined process of its own.

The job starts the tool, which starts `python -m egg_graph.evaluator.worker.sanitize_job FOLDER`. Every allocation is
one of the driver's (PyTorch's cache is off), so that the tool knows where each tensor ends.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from egg_graph.evaluator.worker import single_forward

REPORT = "sanitizer.txt"
PROGRAM = "compute-sanitizer"
MOST_REPORTS = 200
PADDING = 4096
"""Bytes that nobody owns behind every allocation: what runs past an end must not land in the next tensor."""


def run(payload: dict[str, Any], folder: Path, channel: int) -> dict[str, Any]:
    """Run `payload["tool"]`; its report is left in `sanitizer.txt` of the folder."""
    single_forward.leave_order(folder, payload)
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
    """The watched program: the first forward compiles and tunes, the second is the one that counts; both are seen."""
    import torch

    forward = single_forward.prepare(folder, single_forward.read_order(folder))
    forward()
    forward()
    torch.cuda.synchronize()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

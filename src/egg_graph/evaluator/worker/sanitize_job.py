"""Run a candidate's forward under the tools of compute-sanitizer, side by side, in one confined job.

The job starts each tool, which starts `python -m egg_graph.evaluator.worker.sanitize_job FOLDER TOOL`. That program
imports PyTorch, which opens no GPU, and waits until the judge sends the case; it loads that, and waits for the go.

All share the candidate's folder, and with it what it has compiled. PyTorch's caching allocator is off: every tensor is
an allocation of the driver, so a tool knows where each tensor ends.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from egg_graph.evaluator.worker import single_forward, waiting_program

LAST_STEP = "ran"
"""What the watched program has done once its forwards, and the fault planted behind them, have run."""
PROGRAM = "compute-sanitizer"
MOST_REPORTS = 200
"""Most complaints that a tool prints."""
PADDING = 4096
"""Unowned memory behind every allocation [bytes]: an access past one tensor's end must not land in the next tensor."""
POLL = 0.02
"""Seconds between two looks at the tools."""
LONGEST_WAIT = 3600
"""Seconds that a tool waits for its program to open the GPU; by its default, some ten, it would give the program up."""
FILTERS = ("--kernel-regex", "--kernel-name")
"""Names, by version, of the option that says which kernels are looked at."""


def report_of(folder: Path, tool: str) -> Path:
    """The file that a tool writes."""
    return folder / f"sanitizer-{tool}.txt"


def log_of(folder: Path, tool: str) -> Path:
    """The file with what the tool and the watched program print."""
    return folder / f"sanitizer-{tool}.log"


def steps_of(folder: Path, tool: str) -> Path:
    """The file that tells when the watched program had done what; `LAST_STEP` at last."""
    return folder / f"sanitizer-{tool}.steps"


def ready_of(tool: str) -> str:
    """Name of the file in the folder that is there once a tool's program waits for the case."""
    return f"sanitizer-{tool}.ready"


def loaded_of(tool: str) -> str:
    """Name of the file in the folder that is there once a tool's program has loaded the case."""
    return f"sanitizer-{tool}.loaded"


def run(payload: dict[str, Any], folder: Path, channel: int) -> dict[str, Any]:
    """Start tools, which load the case and wait for the go, and let them work side by side for at most
    `payload["seconds"]` from then on.

    Args:
        payload: `tools`, `kernels` (names of those to look at), `seconds` and `python_path`.
        folder: holds the candidate.
        channel: socket on which case and go come (see `waiting_program`).

    Returns:
        `status`: each tool's exit status by name; None for one that was not done. It ends with this job.
    """
    offered = subprocess.run([PROGRAM, "--help"], capture_output=True, text=True, errors="replace", check=False).stdout
    case = waiting_program.new_case(folder)
    started = {tool: _start(tool, payload, folder, offered, case) for tool in payload["tools"]}
    if waiting_program.pass_on(channel, case, partial(_some_wait, started, folder)):
        _wait(list(started.values()), payload["seconds"])
    return {"status": {tool: process.poll() for tool, process in started.items()}}


def _start(tool: str, payload: dict[str, Any], folder: Path, offered: str, case: Path) -> subprocess.Popen[bytes]:
    temporary = folder / "tmp" / tool
    temporary.mkdir(parents=True, exist_ok=True)
    environment = {
        **os.environ,
        "PYTHONPATH": payload["python_path"],
        waiting_program.CASE: case.name,
        "PYTORCH_NO_CUDA_MEMORY_CACHING": "1",
        "PYTORCH_CUDA_ALLOC_CONF": "",
        "CUDA_MODULE_LOADING": "LAZY",
        "TMPDIR": str(temporary),
    }
    with log_of(folder, tool).open("wb") as log:
        return subprocess.Popen(
            command(folder, tool, payload["kernels"], offered), env=environment, stdout=log, stderr=log
        )


def _any_runs(processes: Sequence[subprocess.Popen[bytes]]) -> bool:
    return any(process.poll() is None for process in processes)


def _some_wait(started: Mapping[str, subprocess.Popen[bytes]], folder: Path) -> bool:
    """Whether any program is there to wait. One that has ended is as ready as it will ever be."""
    for tool, process in started.items():
        if process.poll() is not None:
            (folder / ready_of(tool)).touch()
            (folder / loaded_of(tool)).touch()
    return _any_runs(list(started.values()))


def _wait(processes: Sequence[subprocess.Popen[bytes]], seconds: float) -> None:
    """Wait until all are done, or so many seconds have passed."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and _any_runs(processes):
        time.sleep(POLL)


def command(folder: Path, tool: str, kernels: Sequence[str], offered: str) -> list[str]:
    """Return the command line of one tool.

    Args:
        folder: the candidate's.
        tool: name of the tool.
        kernels: names of the kernels to look at. Initcheck has to look at all, for a library's kernel may have written
            what they read.
        offered: what the program prints as its help: options that it does not list are left out.
    """
    name = next((option for option in FILTERS if option in offered), "")
    filters = [word for kernel in kernels for word in (name, f"kernel_substring={kernel}")] if name else []
    survives = ("--destroy-on-device-error", "kernel")
    return [
        *(PROGRAM, "--tool", tool, "--log-file", str(report_of(folder, tool))),
        *(("--padding", str(PADDING)) if tool == "memcheck" else ()),
        *(survives if tool == "memcheck" and survives[0] in offered else ()),
        *(filters if tool != "initcheck" else ()),
        *("--print-limit", str(MOST_REPORTS), "--show-backtrace", "no", "--target-processes", "application-only"),
        *(("--launch-timeout", str(LONGEST_WAIT)) if "--launch-timeout" in offered else ()),
        *(sys.executable, "-P", "-m", __name__, str(folder), tool),
    ]


def main(folder: Path, tool: str) -> None:
    """Run the watched program: two forwards, of which the second is warm, then the fault that the tool has to see."""
    import torch
    import triton  # noqa: F401 - the candidate's own import of it then takes no time

    from egg_graph.evaluator.worker import planted_fault

    payload, steps = waiting_program.wait_for_case(folder, folder / ready_of(tool)), steps_of(folder, tool)
    single_forward.tell_step(steps, payload, "imported")
    tune_by_one_run()
    forward = single_forward.load_forward(folder, payload, drawn_on_host=True)
    single_forward.tell_step(steps, payload, "loaded")
    go = waiting_program.wait_for_go(folder, folder / loaded_of(tool))
    forward()
    forward()
    torch.cuda.synchronize()
    planted_fault.commit(tool)
    single_forward.tell_step(steps, go, LAST_STEP)


def tune_by_one_run() -> None:
    """Let Triton's autotuner run every configuration once and take the first: a clock tells nothing under a tool."""
    from triton.runtime import driver

    def benchmark(kernel_call: Any, quantiles: Sequence[float] | None = None, **options: Any) -> Any:
        kernel_call()
        return 1.0 if quantiles is None else [1.0] * len(quantiles)

    type(driver.active).get_benchmarker = lambda self: benchmark


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])

"""The forked child: confine itself, run one job, report in JSON, end.

A job is a function `(payload, folder, channel) -> dict` named "module:function" in `job.json`. It runs candidate
code; whatever comes of that is reported as findings, or shows in how the process ends.
"""

from __future__ import annotations

import faulthandler
import importlib
import io
import json
import os
import signal
import sys
import tempfile
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from egg_graph.evaluator.gate import audit
from egg_graph.evaluator.host import failure
from egg_graph.evaluator.sandbox import confine

if TYPE_CHECKING:
    from egg_graph.evaluator.sandbox.policy import SandboxPolicy

DONE = 0


def main(order: dict[str, Any], channel: int, policy: SandboxPolicy) -> None:
    """Never returns. Only descriptors 0 to 2 and `channel` stay open."""
    folder = Path(order["folder"])
    os.setsid()
    confine.die_with_parent()
    _redirect(folder)
    channel = _keep_only(channel)
    audit.report_to(channel)
    _environment(folder)
    try:
        _confine(order, folder, policy)
    except OSError as error:
        _report(channel, {"finding": {"kind": "infrastructure", "message": f"confinement failed: {error}"}})
    task = json.loads((folder / "job.json").read_text())
    module, function = task["job"].split(":")
    run = getattr(importlib.import_module(module), function)
    try:
        answer = {"answer": run(task["payload"], folder, channel)}
    except SystemExit as error:
        answer = {"exited": str(error.code)}
    except BaseException as error:  # noqa: BLE001 - the candidate may raise anything; all of it is its finding
        answer = {"finding": describe_failure(error, folder)}
    _report(channel, answer)


def _report(channel: int, answer: dict[str, Any]) -> NoReturn:
    with os.fdopen(channel, "wb", closefd=False) as file:
        file.write(json.dumps(answer).encode() + b"\n")
    os._exit(DONE)


def _confine(order: dict[str, Any], folder: Path, policy: SandboxPolicy) -> None:
    """From here on nothing but the job's own folder can be reached. Nothing of the candidate has run yet."""
    confine.first_to_go()
    confine.set_limits(
        memory_bytes=order["memory_bytes"],
        cpu_seconds=confine.most_processor_seconds(order["wall_seconds"]),
        file_bytes=order["file_bytes"],
        tasks=confine.TASKS if policy.space.user else None,
    )
    policy.enter(str(folder), tools=order["tools"])


def _redirect(folder: Path) -> None:
    log = os.open(folder / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)  # what was printed must outlive a crash


def _keep_only(channel: int) -> int:
    os.dup2(channel, 3)
    os.closerange(4, 65536)
    return 3


def _environment(folder: Path) -> None:
    """The fork server's environment is clean already; folders become the job's own."""
    for name, sub in (
        ("HOME", "."),
        ("TMPDIR", "tmp"),
        ("TRITON_CACHE_DIR", "triton"),
        ("TORCHINDUCTOR_CACHE_DIR", "inductor"),
    ):
        path = folder / sub
        path.mkdir(exist_ok=True)
        os.environ[name] = str(path)
    os.environ.pop("PYTHONPATH", None)
    tempfile.tempdir = None  # what the fork server's imports looked up is the judge's folder, out of reach from here
    os.chdir(folder)


def name_the_line_when_stuck(seconds: float, *, fatal: bool = False) -> None:
    """Leave a traceback in the log on a crash, and when `seconds` are over (0 calls that off).

    Args:
        seconds: from now.
        fatal: whether the process then dies of SIGALRM, too.

    The traceback is written by a signal handler of the thread that is stuck. A watchdog thread, such as
    `faulthandler.dump_traceback_later`, would read frames that change under its eyes, and crash now and then.
    """
    faulthandler.enable()
    faulthandler.unregister(signal.SIGALRM)
    faulthandler.register(signal.SIGALRM, all_threads=False, chain=fatal)
    signal.setitimer(signal.ITIMER_REAL, max(0.0, seconds))


def describe_failure(error: BaseException, folder: Path) -> dict[str, str]:
    """What the exception means, pointing at the candidate's own line where it is on the traceback. See `blame`."""
    traceback.print_exception(error)
    return failure.describe(error, folder / "candidate.py").model_dump()

"""The forked child: it confines itself, runs one job, reports in JSON and exits.

A job is a function `(payload, folder, channel) -> dict` named "module:function". It runs candidate code. What goes
wrong there is reported as a finding, or shows in how the process ends.
"""

from __future__ import annotations

import faulthandler
import importlib
import io
import json
import os
import signal
import stat
import sys
import tempfile
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from egg_graph.evaluator.gate import audit
from egg_graph.evaluator.host import exceptions
from egg_graph.evaluator.sandbox import confine

if TYPE_CHECKING:
    from egg_graph.evaluator.sandbox.policy import SandboxPolicy


def main(request: dict[str, Any], channel: int, task: int, policy: SandboxPolicy) -> None:
    """Confine this process and run the job. Never returns.

    Args:
        request: the job's folder, and its `Limits` by name.
        channel: descriptor to report on; it and 0 to 2 alone stay open.
        task: descriptor of a file with the job's name and payload.
        policy: what confines it.
    """
    folder = Path(request["folder"])
    os.setsid()
    confine.die_with_parent()
    with os.fdopen(task, "rb") as file:
        job = json.load(file)
    _redirect(folder)
    channel = _close_all_but(channel)
    audit.report_to(channel)
    _use_folder(folder)
    try:
        _confine(request, folder, policy)
    except OSError as error:
        _report(channel, {"finding": {"kind": "infrastructure", "message": f"confinement failed: {error}"}})
    module, function = job["job"].split(":")
    run = getattr(importlib.import_module(module), function)
    try:
        answer = {"answer": run(job["payload"], folder, channel)}
    except SystemExit as error:
        answer = {"exited": str(error.code)}
    except BaseException as error:  # noqa: BLE001 - the candidate may raise anything; all of it is its finding
        answer = {"finding": describe_failure(error, folder)}
    _report(channel, answer)


def _report(channel: int, answer: dict[str, Any]) -> NoReturn:
    with os.fdopen(channel, "wb", closefd=False) as file:
        file.write(json.dumps(answer).encode() + b"\n")
    os._exit(0)


def _confine(request: dict[str, Any], folder: Path, policy: SandboxPolicy) -> None:
    """Cut this process off from everything but the job's folder, before anything of the candidate runs."""
    confine.prefer_for_oom_kill()
    confine.set_limits(
        memory_bytes=request["memory_bytes"],
        cpu_seconds=confine.cpu_limit(request["wall_seconds"]),
        file_bytes=request["file_bytes"],
        tasks=confine.TASKS_A_THREAD * request["threads"] if policy.namespaces.user else None,
    )
    policy.enter(str(folder), tools=request["tools"])


def _redirect(folder: Path) -> None:
    """Read standard input from nowhere and write standard output and error to the job's log.

    An earlier job in this folder may have put a link in the log's place, and this process is not confined yet.
    """
    path = folder / "log.txt"
    if os.path.lexists(path) and not stat.S_ISREG(path.lstat().st_mode):
        path.unlink()
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)  # a crash must not lose what was printed


def _close_all_but(channel: int) -> int:
    """Close every descriptor but 0 to 2 and the channel; returns the channel's new number."""
    os.dup2(channel, 3)
    os.closerange(4, 65536)
    return 3


def _use_folder(folder: Path) -> None:
    """Make the job's folder the place of home, temporary files and caches."""
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
    tempfile.tempdir = None  # the fork server's imports have cached the judge's folder, which is out of reach now
    os.chdir(folder)


def name_the_line_when_stuck(seconds: float, *, fatal: bool = False) -> None:
    """Write a traceback to the log on a crash, and when `seconds` have passed.

    A signal handler in the stuck thread writes it. A watchdog thread, such as `faulthandler.dump_traceback_later`,
    would read frames while they change, and sometimes crash.

    Args:
        seconds: from now; 0 cancels the alarm.
        fatal: whether the process then also dies of SIGALRM.
    """
    faulthandler.enable()
    faulthandler.unregister(signal.SIGALRM)
    faulthandler.register(signal.SIGALRM, all_threads=False, chain=fatal)
    signal.setitimer(signal.ITIMER_REAL, max(0.0, seconds))


def describe_failure(error: BaseException, folder: Path) -> dict[str, str]:
    """Print the exception to the log and return its finding, as `exceptions.describe` does, in JSON form."""
    traceback.print_exception(error)
    return exceptions.describe(error, folder / "candidate.py").model_dump()

"""A fork server for hostile jobs, with or without some mechanism."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from egg_graph.evaluator.host.fork_server import Ended, ForkServer, Limits
from tests.paths import IMPORTABLE

HERE = str(Path(__file__).parent)
Run = Callable[..., Ended]


def make(folder: Path, *without: str) -> ForkServer:
    """A fork server without torch, which these jobs do not need."""
    path = os.pathsep.join([HERE, IMPORTABLE])
    return ForkServer(False, folder, ("hostile_jobs",), {"PYTHONPATH": path}, without)


def runner(fork_server: ForkServer, folder: Path) -> Run:
    """`run("read", paths=[...])`: how a job in `folder/job` ended."""

    def run(job: str, limits: Limits | None = None, **payload: Any) -> Ended:
        (folder / "job").mkdir(exist_ok=True)
        return fork_server.run(f"hostile_jobs:{job}", payload, folder / "job", limits or Limits(wall_seconds=20))

    return run


def answer(end: Ended) -> Any:
    """What the job answered; it must have."""
    assert end.cause == "exit" and end.report is not None and "answer" in end.report, (end.cause, end.report, end.log)
    return end.report["answer"]

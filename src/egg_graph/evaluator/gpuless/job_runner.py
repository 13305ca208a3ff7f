"""Run a candidate's jobs, each in a confined process with a private folder."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from egg_graph.evaluator.gate import judged_text
from egg_graph.evaluator.gpuless.kept_code import KeptCode
from egg_graph.evaluator.gpuless.launchers import Launchers
from egg_graph.evaluator.host.fork_server import ForkServer
from egg_graph.evaluator.problem.precision import cast_name
from egg_graph.schema import Candidate, KernelTask

INTERPRETER_THREADS = 6000
"""Threads of a job that interprets: one for each program of a cooperative launch, of which a GPU holds thousands."""


@dataclass(frozen=True)
class JobRunner:
    """Fork servers, and the folder and time limit of their jobs.

    Args:
        interpreting: its children run the guarded interpreter.
        compiling: its children compile, and run on a GPU.
        folder: private to the judge; every job gets a folder inside it.
        timeout: seconds for one run of a candidate.
        compiled: what Triton has compiled for any candidate (its driver module); every job starts with a copy.
        code: what it has compiled of the candidates themselves, if that is kept.
        launchers: what launches kernels, where Triton builds that for each list of parameter types.
    """

    interpreting: ForkServer
    compiling: ForkServer
    folder: Path
    timeout: float
    compiled: Path | None = None
    code: KeptCode | None = None
    launchers: Launchers | None = None

    def common(self, task: KernelTask) -> dict[str, Any]:
        """What every job has to know of a task, as JSON."""
        return {
            "hardware": task.target.model_dump(mode="json"),
            "dtype": cast_name(task.precision),
            "wall_seconds": self.timeout,
        }

    @contextmanager
    def job_folder(self, candidate: Candidate) -> Iterator[Path]:
        """A private folder with what is judged of the candidate in it; deleted after the block."""
        folder = Path(tempfile.mkdtemp(prefix="job-", dir=self.folder))
        try:
            (folder / "candidate.py").write_text(judged_text(candidate.source).source)
            if self.compiled is not None:
                shutil.copytree(self.compiled, folder / "triton")
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

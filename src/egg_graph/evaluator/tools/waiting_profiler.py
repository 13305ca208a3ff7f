"""Nsight Compute on one candidate, started before anybody knows whether there is something to profile.

The GPU is held alone only for the forward itself.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection
from pathlib import Path

from egg_graph.evaluator.host.environment import clean_environment
from egg_graph.evaluator.host.fork_server import ForkServer
from egg_graph.evaluator.tools.compiled_metrics import metrics_of
from egg_graph.evaluator.tools.waiting_job import WaitingJob
from egg_graph.evaluator.worker.profile_job import LOADED, READY
from egg_graph.schema import StageName

PROFILE_SECONDS = 40.0
"""Time limit of the profiler, counted from the go [s]. A GPU that lacks a metric needs a second start within it."""


class WaitingProfiler(WaitingJob):
    """A profiler for the candidate in a folder.

    Args:
        fork_server, folder: as for `WaitingJob`.
        stage: selects the metrics; None selects those of all stages.
    """

    def __init__(self, fork_server: ForkServer, folder: Path, stage: StageName | None) -> None:
        job = "egg_graph.evaluator.worker.profile_job:run"
        super().__init__(fork_server, folder, job, [READY], PROFILE_SECONDS, loaded=[LOADED])
        self.stage = stage
        self.kernels: frozenset[str] = frozenset()
        """Names of the kernels that it looks at."""

    def start(self, kernels: Collection[str]) -> None:
        """Start `ncu` and the program that it watches, which then wait; nothing where `ncu` is not on the PATH.

        Args:
            kernels: names of the kernels to look at; others may be among them that never run.
        """
        if shutil.which("ncu") is None:
            return
        self.kernels = frozenset(kernels)
        self.launch(
            {
                "kernels": sorted(self.kernels),
                "metrics": metrics_of(self.stage),
                "python_path": clean_environment()["PYTHONPATH"],
            }
        )

    def make_ready(self, kernels: Collection[str]) -> None:
        """Return when a profiler for these kernels has nothing left to do without the GPU; starts one if none waits."""
        if not self.waits or not self.kernels.issuperset(kernels):
            self.start(kernels)
        self.wait_until_ready()

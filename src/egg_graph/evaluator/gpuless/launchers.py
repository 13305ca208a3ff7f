"""Modules that launch compiled kernels, built once for each list of parameter types (`aot.launcher`).

They are built in processes that hold nothing of a candidate, from the types alone, and so serve every candidate.
"""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path

from egg_graph.evaluator.aot.launcher import is_built_by_types
from egg_graph.evaluator.gpuless.kept_code import KeptCode, key_of
from egg_graph.evaluator.host.fork_server import ForkServer, Limits
from egg_graph.evaluator.wire.launches import Launch
from egg_graph.schema import Hardware

BUILD_SECONDS = 20.0
"""Time limit of building one [s]."""


class Launchers:
    """Builds and keeps them. Safe from several threads: what one builds, the others wait for.

    Args:
        compiling: the fork server whose children compile.
        folder: of this judge.
        kept: where they are kept; several judges may share it.
    """

    def __init__(self, compiling: ForkServer, folder: Path, kept: KeptCode) -> None:
        self._compiling = compiling
        self._folder = folder
        self._kept = kept
        self._locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def give(self, launches: Iterable[Launch], hardware: Hardware, cache: Path) -> None:
        """Put what launches some kernels, under all their configurations, into a folder that Triton uses as its cache.

        What cannot be built is left out: the process that launches finds out why.

        Args:
            launches: as a run without values recorded them.
            hardware: this machine's GPU.
            cache: of a candidate, whose processes may be changing it.

        Raises:
            InfrastructureError: if the fork server was lost.
        """
        if not is_built_by_types():
            return
        signatures = (one.signature for launch in launches for one in (launch, *launch.alternatives))
        for types in dict.fromkeys(json.dumps(list(signature.values())) for signature in signatures):
            key = key_of(types, {"target": hardware.arch})
            with self._lock:
                building = self._locks.setdefault(key, threading.Lock())
            with building:
                if self._kept.give(key, cache) is None:
                    self._build(key, types, hardware)
                    self._kept.give(key, cache)

    def _build(self, key: str, types: str, hardware: Hardware) -> None:
        payload = {"types": json.loads(types), "hardware": hardware.model_dump(mode="json")}
        with tempfile.TemporaryDirectory(prefix="launcher-", dir=self._folder) as folder:
            job = "egg_graph.evaluator.worker.compile_job:build_launcher"
            end = self._compiling.run(job, payload, Path(folder), Limits(wall_seconds=BUILD_SECONDS))
            if "answer" in (end.report or {}):
                self._kept.keep(key, Path(folder) / "triton", "")

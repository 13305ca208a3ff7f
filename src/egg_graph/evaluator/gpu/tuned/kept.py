"""Tuned PyTorch kept on disk by content, for later judges on the same kind of GPU with the same versions.

It costs minutes and decides no verdict. Times that were kept count only while PyTorch as it comes takes as long as it
took beside them.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from pydantic import ValidationError

from egg_graph.evaluator.gpu.tuned.plan import ALL_SECONDS, AUTOTUNE_SECONDS, TRIAL_SECONDS
from egg_graph.schema import Environment, KernelTask, TunedBaseline, TunedTrial
from egg_graph.whole_files import write_whole

VERSION = 1
"""Version of what is measured and kept; another one is measured anew."""
DRIFT = 0.05
"""Largest relative difference between PyTorch's times then and now."""


class KeptBaselines:
    """The kept baselines of one kind of machine.

    Args:
        folder: where they lie; None keeps nothing.
        environment: GPU, driver and versions.
    """

    def __init__(self, folder: Path | None, environment: Environment) -> None:
        self.folder, self.environment = folder, environment

    def find(self, task: KernelTask, eager_ms: float | None, compile_ms: float | None) -> TunedBaseline | None:
        """The kept baseline of a task; None where there is none, it cannot be read, or PyTorch's times have moved.

        Args:
            task: the reference.
            eager_ms, compile_ms: times of eager PyTorch and torch.compile now [ms].
        """
        path = self._path(task)
        if path is None or not path.is_file():
            return None
        try:
            found = TunedBaseline.model_validate_json(path.read_bytes())
        except (OSError, ValidationError):  # damaged: it is measured again, and replaced
            return None
        near = _near(found.eager_ms, eager_ms) and _near(found.compile_ms, compile_ms)
        return found.model_copy(update={"kept": True}) if near else None

    def keep(self, task: KernelTask, tuned: TunedBaseline) -> None:
        """Keep a baseline, unless the machine spoiled a part of it."""
        path = self._path(task)
        if path is None or tuned.reason or any(map(_spoiled, tuned.trials)):
            return
        try:
            path.parent.mkdir(exist_ok=True)
            write_whole(path, tuned.model_dump_json())
        except OSError as error:
            print(f"tuned PyTorch is not kept for later judges: {error}", flush=True)

    def _path(self, task: KernelTask) -> Path | None:
        if self.folder is None:
            return None
        machine = self.environment
        about = [VERSION, task.digest, machine.gpu, machine.driver, machine.cuda, machine.torch, machine.triton]
        parts = json.dumps([*about, TRIAL_SECONDS, AUTOTUNE_SECONDS, ALL_SECONDS])
        return self.folder / "tuned" / f"{hashlib.sha256(parts.encode()).hexdigest()}.json"


def _spoiled(trial: TunedTrial) -> bool:
    """Whether the machine kept a trial from being measured. Of all trials, max-autotune alone may take too long."""
    return trial.outcome == "machine" or (trial.outcome == "limit" and trial.forward != "max-autotune")


def _near(then: float | None, now: float | None) -> bool:
    if then is None or now is None:
        return then is now
    return abs(now - then) <= DRIFT * then

"""The evaluators of a machine that judges for others, and what it prints about them."""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

import typer

from egg_graph.cli.console import plain, stdout
from egg_graph.context import Device, check_device
from egg_graph.schema import USABLE

if TYPE_CHECKING:
    from egg_graph.evaluator.pool import Pool
    from egg_graph.evaluator.remote.questions import Answer, Question

WORKERS = typer.Option(min=1, help="Judges on each GPU; without a GPU, or with --ray, judges in all.")
TIMEOUT = typer.Option(help="Seconds that one run of a candidate may take.")
PROFILE = typer.Option("--profile/--no-profile", help="Collect Nsight Compute metrics of right kernels, on a GPU.")
RAY = typer.Option(metavar="ADDRESS", help="Judge on the hosts of this Ray cluster; auto takes the one that runs here.")


@dataclass(frozen=True)
class Host:
    """How a machine judges for others."""

    device: Device
    workers: int
    timeout: float
    profile: bool
    ray: str | None

    def make_pool(self) -> Pool:
        """Its evaluators.

        Raises:
            BadInput: if an option makes no sense here.
            InfrastructureError: if the Ray cluster cannot be reached.
        """
        from egg_graph.evaluator import EvaluatorPool, RayPool, gpu_present

        if self.ray is not None:
            gpus: Literal[0, 1] = 0 if self.device == "none" else 1
            settings = {"timeout": self.timeout, "profile": self.profile}
            return RayPool(self.ray, workers=self.workers, gpus_per_worker=gpus, **settings)
        check_device(self.device)
        if self.device != "none" and gpu_present():
            return EvaluatorPool("all", workers_per_gpu=self.workers, timeout=self.timeout, profile=self.profile)
        return EvaluatorPool(workers=self.workers, timeout=self.timeout)

    @property
    def name(self) -> str:
        """Digest of what its answers hang on beside the question: this machine, its versions, and these options."""
        from egg_graph.evaluator import environment
        from egg_graph.evaluator.remote.questions import package_version

        options = {name: value for name, value in asdict(self).items() if name != "workers"}
        parts = [package_version(), options, environment().model_dump()]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def place(self) -> str:
        """Where it judges, in a few words."""
        from egg_graph.evaluator import environment

        if self.ray is not None:
            return f"a Ray cluster ({self.ray})"
        gpu = None if self.device == "none" else environment().gpu
        return gpu or "this machine, without a GPU"


def log_to_stderr() -> None:
    """Show warnings and errors, with their tracebacks: whoever asked gets only one line."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")


def tell_answer(key: str, question: Question | None, answer: Answer) -> None:
    """Print one answer as one line."""
    if question is None:
        what = "unreadable question"
    else:
        about = [one.id for one in question.candidates] if question.kind == "evaluate" else []
        what = " ".join([question.kind, *([question.task.name] if question.task else []), *about])
    if answer.error:
        said = f"{'refused' if answer.error == 'BadInput' else 'the machine failed'}: {answer.message}"
    elif answer.evaluation is not None:
        said = f"{answer.evaluation.status} ({answer.evaluation.seconds:.0f} s)"
    elif answer.trials is not None:
        usable = sum(trial.status in USABLE for trial in answer.trials)
        seconds = sum(sum(trial.spent.seconds.values()) for trial in answer.trials)
        said = f"{len(answer.trials)} configurations, {usable} usable ({seconds:.0f} s)"
    else:
        said = "answered"
    stdout().print(f"{key[:8]}  {plain(what)}: {plain(said)}", soft_wrap=True)

"""The judge process: holds reference, expected answers, seeds, budgets and the verdict. It never imports a candidate.

`python -m egg_graph.evaluator.judge FD SETTINGS`: one JSON request a line on the socket FD, one JSON answer each.
When its owner closes the socket or dies, it ends, and everything it started ends with it.
"""

from __future__ import annotations

import json
import os
import queue
import secrets
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from egg_graph.evaluator.detect import environment
from egg_graph.evaluator.docket import Docket
from egg_graph.evaluator.evidence import Climb
from egg_graph.evaluator.gpu_ladder import GpuLadder
from egg_graph.evaluator.ladder import Ladder
from egg_graph.evaluator.nursery import Nursery
from egg_graph.evaluator.problem import Unevaluable
from egg_graph.evaluator.profile import compiled_profile
from egg_graph.evaluator.screen import screen_on_gpu, screen_without_gpu
from egg_graph.schema import (
    BadInput,
    Baseline,
    Candidate,
    Evaluation,
    Finding,
    FindingKind,
    InfrastructureError,
    KernelTask,
    StageName,
    Status,
    Trial,
)

JOBS = "egg_graph.evaluator.jobs"


class Judge:
    """Answers requests, one at a time."""

    def __init__(self, settings: dict[str, Any], folder: Path) -> None:
        self.settings = settings
        self.timeout = float(settings["timeout"])
        self.root_seed = settings["seed"] if settings["seed"] is not None else secrets.randbits(62)
        self.dockets: dict[str, Docket] = {}
        self.on_gpu = _use_gpu(settings["device"])
        self.environment = environment(use_gpu=self.on_gpu)
        self.compiling = Nursery(interpret=False, folder=folder, warm=(JOBS,))
        self.interpreting = Nursery(interpret=True, folder=folder, warm=(JOBS,))
        self.compiling.start()
        if not self.on_gpu:
            self.interpreting.start()
        self.ladder = Ladder(self.interpreting, self.compiling, folder, self.timeout, ThreadPoolExecutor(4))
        self.gpu: GpuLadder | None = None
        if self.on_gpu:
            self.gpu = GpuLadder(self.ladder, torch.cuda.get_device_name(0), profiling=bool(settings["profile"]))

    def answer(self, method: str, params: dict[str, Any]) -> Any:
        """Dispatch one request; the result is JSON."""
        if method == "environment":
            return self.environment.model_dump(mode="json")
        task = KernelTask.model_validate(params["task"])
        if method == "baseline":
            return self.baseline(task).model_dump(mode="json")
        if method == "evaluate":
            candidate = Candidate.model_validate(params["candidate"])
            return self.evaluate(task, candidate, params["stage"]).model_dump(mode="json")
        if method == "screen":
            candidates = [Candidate.model_validate(c) for c in params["candidates"]]
            return [trial.model_dump(mode="json") for trial in self.screen(task, candidates)]
        raise BadInput(f"the judge knows no method {method}")

    def docket(self, task: KernelTask) -> Docket:
        """The task's docket, opened at first sight."""
        if task.digest not in self.dockets:
            self.dockets[task.digest] = Docket(task, self.root_seed, torch.device("cuda" if self.on_gpu else "cpu"))
        return self.dockets[task.digest]

    def baseline(self, task: KernelTask) -> Baseline:
        docket = self.docket(task)
        docket.arguments({})
        known: dict[str, Any] = {"environment": self.environment}
        if self.gpu is not None and not docket.surveyed.unevaluable:
            try:
                opponent = self.gpu.opponent(docket)
            except Unevaluable as problem:
                known["unevaluable"] = str(problem)
            else:
                known |= {f"{name}_ms": value for name, value in opponent.milliseconds.items()}
                known["eager_fp32_ms"] = opponent.eager_fp32_ms
        return docket.surveyed.model_copy(update=known)

    def evaluate(self, task: KernelTask, candidate: Candidate, stage: StageName | None) -> Evaluation:
        started = time.monotonic()
        docket = self.docket(task)
        verdict: tuple[Status, str] | None = None
        kind: FindingKind = "degenerate_problem"
        try:
            unevaluable = docket.surveyed.unevaluable
        except BadInput as error:
            unevaluable, kind = str(error), "reference_failed"
        if unevaluable:
            climb = Climb()
            climb.fail("baseline", [Finding(kind=kind, message=unevaluable)])
        else:
            climb, verdict = self._climb(docket, candidate, stage)
        if climb.profile.source == "none":
            climb.profile = compiled_profile(climb.resources, stage)
        return climb.conclude(
            task, candidate, environment=self.environment, seconds=time.monotonic() - started, verdict=verdict
        )

    def _climb(
        self, docket: Docket, candidate: Candidate, stage: StageName | None
    ) -> tuple[Climb, tuple[Status, str] | None]:
        if self.gpu is not None:
            return self.gpu.climb(docket, candidate, stage)
        return self.ladder.climb(docket, candidate), None

    def screen(self, task: KernelTask, candidates: list[Candidate]) -> list[Trial]:
        if self.gpu is not None:
            return screen_on_gpu(self.gpu, self.docket(task), candidates)
        return screen_without_gpu(self.ladder, self.docket(task), candidates)


def _use_gpu(device: str) -> bool:
    if device == "none":
        return False
    if torch.cuda.is_available():
        return True
    if device == "gpu":
        raise InfrastructureError('there is no GPU that PyTorch can use here; take device="none"')
    return False


def serve(control: socket.socket, make: Callable[[], Judge]) -> None:
    """Answer until the owner goes away. A reader thread notices that even in the middle of a request."""
    requests: queue.Queue[bytes] = queue.Queue()
    threading.Thread(target=_read, args=(control, requests), daemon=True).start()
    judge: Judge | None = None
    while True:
        request = json.loads(requests.get())
        try:
            judge = judge or make()
            answer = {"result": judge.answer(request["method"], request["params"])}
        except BadInput as error:
            answer = {"error": {"type": "BadInput", "message": str(error)}}
        except Exception as error:  # noqa: BLE001 - whatever else happens here is not the candidate's doing
            traceback.print_exc()
            message = str(error) if isinstance(error, InfrastructureError) else f"{type(error).__name__}: {error}"
            answer = {"error": {"type": "InfrastructureError", "message": message}}
        control.sendall(json.dumps(answer).encode() + b"\n")


def _read(control: socket.socket, requests: queue.Queue[bytes]) -> None:
    with control.makefile("rb") as lines:
        for line in lines:
            requests.put(line)
    os._exit(0)  # the nurseries die with this process, their children with them


def main() -> None:
    torch.set_num_threads(1)
    os.environ.setdefault("HOME", str(Path.cwd()))
    os.environ["TRITON_CACHE_DIR"] = str(Path.cwd() / "triton")
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(Path.cwd() / "inductor")
    settings = json.loads(sys.argv[2])
    serve(socket.socket(fileno=int(sys.argv[1])), lambda: Judge(settings, Path.cwd()))


if __name__ == "__main__":
    main()

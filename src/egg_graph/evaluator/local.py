"""The evaluator on this machine. It lives in the caller's process and imports neither torch nor triton."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from egg_graph.evaluator.surroundings import clean_environment
from egg_graph.schema import (
    BadInput,
    Baseline,
    Candidate,
    Environment,
    Evaluation,
    InfrastructureError,
    KernelTask,
    StageName,
    Trial,
)

START_SECONDS = 120.0


class LocalEvaluator:
    """Judges candidates in processes of their own; satisfies the `Evaluator` protocol.

    A judge process holds reference, expected answers, seeds and verdict; candidates run in children of other processes
    that hold none of them. The judge starts with the first call and stays warm. Calls from several threads are safe
    and take turns.

    Args:
        device: `"gpu"` measures on the GPU of this machine, `"none"` proves what can be proven without, `"auto"` takes
            the GPU if PyTorch can use one.
        timeout: seconds that one run of a candidate may take.
        seed: for the inputs; None draws a secret one, which the evidence records.
        profile: collect Nsight Compute metrics after a pass, where `ncu` is on the PATH.

    Raises:
        BadInput: if an option makes no sense.
    """

    def __init__(
        self,
        *,
        device: Literal["auto", "gpu", "none"] = "auto",
        timeout: float = 60.0,
        seed: int | None = None,
        profile: bool = False,
    ) -> None:
        if device not in ("auto", "gpu", "none"):
            raise BadInput(f'device: "{device}" is not one of auto, gpu, none')
        if timeout <= 0:
            raise BadInput(f"timeout: {timeout} seconds leave no time to run; give more than 0")
        self.timeout = timeout
        self._settings = {"device": device, "timeout": timeout, "seed": seed, "profile": profile}
        self._lock = threading.Lock()
        self._judge: _Judge | None = None

    # ----------------------------------------------------------------------------------------- the protocol

    def baseline(self, task: KernelTask) -> Baseline:
        """Run (and, on a GPU, measure) the reference itself. See `Evaluator.baseline`."""
        answer = self._call("baseline", {"task": task.model_dump(mode="json")}, 900.0)
        return Baseline.model_validate(answer)

    def evaluate(
        self, task: KernelTask, candidate: Candidate, *, stage: StageName | None = None, finalist: bool = False
    ) -> Evaluation:
        """Climb the whole ladder with one candidate. See `Evaluator.evaluate`."""
        params = {
            "task": task.model_dump(mode="json"),
            "candidate": candidate.model_dump(mode="json"),
            "stage": stage,
            "finalist": finalist,
        }
        return Evaluation.model_validate(self._call("evaluate", params, 900.0 + 8 * self.timeout))

    def screen(self, task: KernelTask, candidates: Sequence[Candidate]) -> tuple[Trial, ...]:
        """Rank configurations by cheaper evidence. See `Evaluator.screen`."""
        params = {
            "task": task.model_dump(mode="json"),
            "candidates": [candidate.model_dump(mode="json") for candidate in candidates],
        }
        answer = self._call("screen", params, 900.0 + 2 * self.timeout * max(1, len(candidates)))
        return tuple(Trial.model_validate(trial) for trial in answer)

    def environment(self) -> Environment:
        """Where this evaluator gathers its evidence (starts the judge)."""
        return Environment.model_validate(self._call("environment", {}, START_SECONDS))

    # ------------------------------------------------------------------------------------------- life cycle

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the judge and all it started. The next call starts a new one."""
        with self._lock:
            self._drop()

    def _drop(self) -> None:
        if self._judge is not None:
            self._judge.kill()
            self._judge = None

    def _call(self, method: str, params: Mapping[str, Any], seconds: float) -> Any:
        with self._lock:
            if self._judge is None:
                self._judge = _Judge(self._settings)
            try:
                answer = self._judge.ask({"method": method, "params": params}, seconds)
            except InfrastructureError:
                self._drop()
                raise
        error = answer.get("error")
        if error is None:
            return answer["result"]
        raise {"BadInput": BadInput, "InfrastructureError": InfrastructureError}[error["type"]](error["message"])


class _Judge:
    """The judge process as its owner sees it."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="egg-evaluator-"))
        ours, theirs = socket.socketpair()
        with theirs, (self.folder / "judge.log").open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "egg_graph.evaluator.judge_process", str(theirs.fileno()), json.dumps(settings)],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=clean_environment(),
                cwd=self.folder,
                start_new_session=True,
            )
        self.socket = ours
        self._finalizer = weakref.finalize(self, _end, self.process, ours, self.folder)

    def ask(self, request: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """One request, one answer.

        Raises:
            InfrastructureError: if the judge is lost or takes too long.
        """
        try:
            self.socket.settimeout(seconds)
            self.socket.sendall(json.dumps(request).encode() + b"\n")
            data = bytearray()
            while not data.endswith(b"\n"):
                piece = self.socket.recv(1 << 20)
                if not piece:
                    raise InfrastructureError(f"the judge process was lost: {self._last_words()}")
                data += piece
        except TimeoutError as error:
            raise InfrastructureError(f"the judge process did not answer within {seconds:.0f} s") from error
        except OSError as error:
            raise InfrastructureError(f"the judge process was lost ({error}): {self._last_words()}") from error
        answer: dict[str, Any] = json.loads(data)
        return answer

    def _last_words(self) -> str:
        log = (self.folder / "judge.log").read_text(errors="replace").strip()
        return log.splitlines()[-1][:300] if log else "it left no message"

    def kill(self) -> None:
        self._finalizer()


def _end(process: subprocess.Popen[bytes], ours: socket.socket, folder: Path) -> None:
    """Kill the judge's group. Its nurseries and their children die with their parents."""
    ours.close()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    shutil.rmtree(folder, ignore_errors=True)

"""The owner's side of a judge process: start it, ask it, and end it with everything it started."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from egg_graph.evaluator.host.environment import clean_environment
from egg_graph.evaluator.judge.compile_cache import bytecode_environment, cache_folder
from egg_graph.evaluator.progress import Progress, report_progress
from egg_graph.schema import BadInput, InfrastructureError

REMOVAL_SECONDS = 1.0
"""Time to try to delete a judge's folder [s]."""


class JudgeLost(InfrastructureError):
    """The judge died, or a fault of the machine spoiled it. A new judge may answer the same request."""


WARM_SECONDS = 300.0
"""Time for a judge to warm up [s]."""


class JudgeClient:
    """One judge process.

    Args:
        settings: as `LocalEvaluator` takes them; `gpu` is a UUID or None.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="egg-evaluator-"))
        cache = cache_folder()
        environment = {
            **clean_environment(),
            **bytecode_environment(cache),
            "TMPDIR": str(self.folder),
        }  # whatever it writes is deleted with the folder
        if settings["gpu"] is not None:
            environment["CUDA_VISIBLE_DEVICES"] = settings["gpu"]
        settings = {**settings, "compile_cache": str(cache)}
        ours, theirs = socket.socketpair()
        with theirs, (self.folder / "judge.log").open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "egg_graph.evaluator.judge.process", str(theirs.fileno()), json.dumps(settings)],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                cwd=self.folder,
                start_new_session=True,
            )
        self.socket = ours
        self._unread = bytearray()
        self._finalizer = weakref.finalize(self, _end, self.process, ours, self.folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()

    def ask(self, method: str, params: Mapping[str, Any], seconds: float) -> Any:
        """Send one request and wait for the answer. What the judge reports meanwhile is reported here.

        Args:
            method: the judge's method.
            params: its arguments, as JSON values.
            seconds: time to wait for the answer.

        Raises:
            BadInput: if the judge reports bad input.
            JudgeLost: if the judge died, or broke while it answered.
            InfrastructureError: if it takes too long, or reports that the machine failed.
        """
        request = {"method": method, "params": params, "sent": time.monotonic()}
        answer = self._exchange(json.dumps(request).encode(), seconds)
        error = answer.get("error")
        if error is None:
            return answer["result"]
        kinds = {"BadInput": BadInput, "InfrastructureError": InfrastructureError, "JudgeLost": JudgeLost}
        raise kinds[error["type"]](error["message"])

    def _exchange(self, request: bytes, seconds: float) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        try:
            self.socket.settimeout(seconds)
            self.socket.sendall(request + b"\n")
            message = self._read_message(deadline)
            while "progress" in message:
                progress = Progress.model_validate(message["progress"])
                report_progress(progress.doing, number=progress.number, trial=progress.trial)
                message = self._read_message(deadline)
        except TimeoutError as error:
            raise InfrastructureError(f"the judge process did not answer within {seconds:.0f} s") from error
        except OSError as error:
            raise JudgeLost(f"the judge process was lost ({error}): {self._last_words()}") from error
        return message

    def _read_message(self, deadline: float) -> dict[str, Any]:
        """Read one line of JSON.

        Raises:
            TimeoutError: at the deadline, by the monotonic clock.
            JudgeLost: if the judge died.
        """
        while b"\n" not in self._unread:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self.socket.settimeout(left)
            piece = self.socket.recv(1 << 20)
            if not piece:
                raise JudgeLost(f"the judge process was lost: {self._last_words()}")
            self._unread += piece
        line, _, self._unread = self._unread.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def _last_words(self) -> str:
        log = (self.folder / "judge.log").read_text(errors="replace").strip()
        return log.splitlines()[-1][:300] if log else "it left no message"

    def interrupt(self) -> None:
        """End the judge's processes from another thread than the one that asks; that one then raises `JudgeLost`."""
        _kill(self.process)
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def kill(self) -> None:
        """End the judge, its fork servers and their children, and delete its folder."""
        self._finalizer()


class WarmingJudge:
    """A judge that finds a task's shapes while another one evaluates; it opens the GPU with its first request.

    Args:
        settings: as for `JudgeClient`.
        task: the task that it is going to judge, as JSON.
    """

    def __init__(self, settings: Mapping[str, Any], task: Mapping[str, Any]) -> None:
        self._client = JudgeClient(settings)
        self._thread = ThreadPoolExecutor(1)
        self._warm = self._thread.submit(self._client.ask, "warm", {"task": task}, WARM_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """End it, also while it warms up."""
        self.interrupt()
        self._thread.shutdown()
        self._client.kill()

    def ask(self, method: str, params: Mapping[str, Any], seconds: float) -> Any:
        """Ask it once it is warm. Raises as `JudgeClient.ask`."""
        self._warm.result()
        return self._client.ask(method, params, seconds)

    def interrupt(self) -> None:
        """End it from another thread, as `JudgeClient.interrupt`."""
        self._client.interrupt()


def _end(process: subprocess.Popen[bytes], ours: socket.socket, folder: Path) -> None:
    ours.close()
    _kill(process)
    process.wait()
    deadline = time.monotonic() + REMOVAL_SECONDS
    while folder.exists() and time.monotonic() < deadline:
        shutil.rmtree(folder, ignore_errors=True)  # fails while a candidate that dies just now still writes into it


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the judge's process group. Its fork servers and their children die with their parents."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)

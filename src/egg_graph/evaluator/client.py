"""The judge process as its owner sees it: started, asked, and ended with all it started."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from egg_graph.evaluator.host.environment import clean_environment
from egg_graph.schema import BadInput, InfrastructureError


class JudgeLost(InfrastructureError):
    """The judge died, or a fault of the machine spoiled it: the same question to a new one may well be answered."""


class JudgeClient:
    """One judge process.

    Args:
        settings: as `LocalEvaluator` takes them; `gpu` is a UUID or None.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="egg-evaluator-"))
        environment = {**clean_environment(), "TMPDIR": str(self.folder)}  # all that it writes goes when it does
        if settings["gpu"] is not None:
            environment["CUDA_VISIBLE_DEVICES"] = settings["gpu"]
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
        self._finalizer = weakref.finalize(self, _end, self.process, ours, self.folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def ask(self, method: str, params: Mapping[str, Any], seconds: float) -> Any:
        """One request, one answer.

        Raises:
            BadInput: if the judge says so.
            JudgeLost: if the judge died, or broke while it answered.
            InfrastructureError: if it takes too long, or says that the machine failed.
        """
        answer = json.loads(self._exchange(json.dumps({"method": method, "params": params}).encode(), seconds))
        error = answer.get("error")
        if error is None:
            return answer["result"]
        kinds = {"BadInput": BadInput, "InfrastructureError": InfrastructureError, "JudgeLost": JudgeLost}
        raise kinds[error["type"]](error["message"])

    def _exchange(self, request: bytes, seconds: float) -> bytes:
        try:
            self.socket.settimeout(seconds)
            self.socket.sendall(request + b"\n")
            data = bytearray()
            while not data.endswith(b"\n"):
                piece = self.socket.recv(1 << 20)
                if not piece:
                    raise JudgeLost(f"the judge process was lost: {self._last_words()}")
                data += piece
        except TimeoutError as error:
            raise InfrastructureError(f"the judge process did not answer within {seconds:.0f} s") from error
        except OSError as error:
            raise JudgeLost(f"the judge process was lost ({error}): {self._last_words()}") from error
        return bytes(data)

    def _last_words(self) -> str:
        log = (self.folder / "judge.log").read_text(errors="replace").strip()
        return log.splitlines()[-1][:300] if log else "it left no message"

    def kill(self) -> None:
        """End it, its fork servers and their children; nothing of its folder stays."""
        self._finalizer()


def _end(process: subprocess.Popen[bytes], ours: socket.socket, folder: Path) -> None:
    """Kill the judge's group. Its fork servers and their children die with their parents."""
    ours.close()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    shutil.rmtree(folder, ignore_errors=True)

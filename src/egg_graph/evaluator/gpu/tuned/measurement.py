"""Tuned PyTorch of one task, on the judge's side: what is tried, in a process of its own, within its time."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from egg_graph.evaluator.gpu.tuned import plan
from egg_graph.evaluator.progress import report_progress
from egg_graph.schema import KernelTask, TunedBaseline, TunedTrial

COMPILE_THREADS = 8
"""Most processes that compile what max-autotune chooses from."""
EXIT_SECONDS = 5.0
"""Time for a process that closed its output to end [s]."""
Ask = Callable[[TunedTrial, float], TunedTrial]
"""Measures a trial within so many seconds."""


def measure_tuned(
    ask: Ask, *, eager_ms: float | None, compile_ms: float | None, convolution: bool, layout: str
) -> TunedBaseline:
    """Measure tuned PyTorch: the cheap switches of a convolution, then max-autotune.

    Args:
        ask: measures a trial.
        eager_ms, compile_ms: times of eager PyTorch and torch.compile as they come [ms].
        convolution: whether the reference convolves.
        layout: the channels-last layout of its weights; empty where they have none.
    """
    until = time.monotonic() + plan.ALL_SECONDS
    trials: list[TunedTrial] = []

    def measure(trial: TunedTrial, seconds: float) -> None:
        left = until - time.monotonic()
        report_progress(f"times {trial.name}")
        trials.append(ask(trial, min(seconds, left)) if left > 0 else timed_out(trial, plan.ALL_SECONDS))

    for trial in plan.cheap_trials(layout) if convolution else ():
        measure(trial, plan.TRIAL_SECONDS)
    measure(plan.autotune_trial(trials, compile_ms), plan.AUTOTUNE_SECONDS)
    return TunedBaseline(
        trials=tuple(trials),
        untried=plan.untried(convolution, layout),
        eager_ms=eager_ms,
        compile_ms=compile_ms,
        measured=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def timed_out(trial: TunedTrial, seconds: float) -> TunedTrial:
    """A trial whose time was up."""
    return trial.model_copy(update={"outcome": "limit", "reason": f"limit: {seconds:.0f} s", "seconds": seconds})


def _spoiled(trial: TunedTrial, reason: str) -> TunedTrial:
    return trial.model_copy(update={"outcome": "machine", "reason": reason})


class TunedProcess:
    """The process that measures trials. One whose time is up is killed.

    The next trial starts another one, unless one was lost before any had answered.

    Args:
        task: the reference.
        folder: private to the judge: what is compiled here stays here, for a clock chose it.
        command: starts the process.
    """

    def __init__(
        self,
        task: KernelTask,
        folder: Path,
        command: tuple[str, ...] = (sys.executable, "-m", "egg_graph.evaluator.gpu.tuned.process"),
    ) -> None:
        self.task, self.folder, self.command = task, folder, command
        self._process: subprocess.Popen[bytes] | None = None
        self._answered, self._lost = False, ""

    def ask(self, trial: TunedTrial, seconds: float) -> TunedTrial:
        """Measure a trial within its time; a new process has time to start beside it."""
        if self._lost and not self._answered:
            return _spoiled(trial, self._lost)
        allowed = seconds + (plan.START_SECONDS if self._process is None else 0.0)
        began = time.monotonic()
        try:
            process = self._process or self._start()
            _send(process, trial.model_dump_json())
            line = _read_line(process, began + allowed)
            if line is None:
                self.close()
                return timed_out(trial, seconds)
            self._answered = True
            return TunedTrial.model_validate_json(line)
        except (BrokenPipeError, EOFError):
            self._lost = f"its process ended (exit status {self._exit_status()})"
            self.close()
            return _spoiled(trial, self._lost)

    def _exit_status(self) -> int | None:
        """The status with which the process ended; None where it did not, and only closed its output."""
        with suppress(subprocess.TimeoutExpired):
            return None if self._process is None else self._process.wait(EXIT_SECONDS)
        return None

    def _start(self) -> subprocess.Popen[bytes]:
        compiled = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton"}
        environment = {
            **os.environ,
            **{name: str(self.folder / "tuned" / part) for name, part in compiled.items()},
            "TORCHINDUCTOR_COMPILE_THREADS": str(min(COMPILE_THREADS, os.cpu_count() or 1)),
        }
        process = self._process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, start_new_session=True
        )
        _send(process, self.task.model_dump_json())
        return process

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process and those that it started."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()


def _send(process: subprocess.Popen[bytes], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line.encode() + b"\n")
    process.stdin.flush()


def _read_line(process: subprocess.Popen[bytes], until: float) -> bytes | None:
    """The next line of the process; None if there is none until then, by the monotonic clock [s].

    Raises:
        EOFError: if the process closed its output.
    """
    assert process.stdout is not None
    file, line = process.stdout.fileno(), b""
    while not line.endswith(b"\n"):
        if not select.select([file], [], [], max(0.0, until - time.monotonic()))[0]:
            return None
        piece = os.read(file, 1 << 16)
        if not piece:
            raise EOFError
        line += piece
    return line

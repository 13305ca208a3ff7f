"""Deal jobs to worker processes, one a place on a GPU, and hear what they tell. One loop waits for all pipes."""

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Protocol

from egg_graph.bench.values import Row
from egg_graph.bench.worker import Job, Settings
from egg_graph.schema import ModelRefused

LIVES = 2
"""How many workers a job may cost before it is told as a failure of the machine."""

GRACE = 10.0
"""Seconds for a worker without a job to end by itself."""


class Launched(Protocol):
    """A started worker process."""

    pid: int
    stdin: IO[bytes]
    stdout: IO[bytes]

    def kill(self) -> None: ...

    def wait(self, timeout: float | None = None) -> int: ...


Launch = Callable[[str | None], Launched]
"""Starts a worker process for a GPU."""


def launcher(log: Path, places: int) -> Launch:
    """Start workers as processes of this interpreter.

    Args:
        log: file that gets what they print.
        places: how many there will be at once; the host's cores are shared among them.
    """

    def launch(gpu: str | None) -> Launched:
        threads = str(max(1, (os.cpu_count() or 1) // places))
        with log.open("ab") as errors:
            return subprocess.Popen(  # type: ignore[return-value]
                [sys.executable, "-m", "egg_graph.bench.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={"OMP_NUM_THREADS": threads, **os.environ},
                start_new_session=True,  # Ctrl-C reaches the bench alone, which then ends them
            )

    return launch


@dataclass
class Place:
    """One place on a GPU: a worker process, and the job that it has."""

    number: int
    gpu: str | None
    process: Launched | None = None
    job: Job | None = None
    since: float = 0.0
    """Start of the job, by `time.monotonic`."""
    doing: str = ""
    unread: bytes = b""
    spent: int = 0
    """Workers that the job has cost."""


@dataclass
class Listener:
    """What the bench does with what workers tell."""

    begun: Callable[[Job, str], None]
    done: Callable[[Place, Row], None]
    changed: Callable[[Sequence[Place]], None] = field(default=lambda places: None)


class Dispatcher:
    """Deals jobs to places. A context manager: at its end every worker is ended, with what it started.

    Args:
        gpus: one GPU for each place; None without one.
        settings: of every worker but its GPU.
        launch: starts a worker.
        listener: hears of jobs.
    """

    def __init__(self, gpus: Sequence[str | None], settings: Settings, launch: Launch, listener: Listener) -> None:
        self.places = [Place(number, gpu) for number, gpu in enumerate(gpus)]
        self.settings, self.launch, self.listener = settings, launch, listener
        self._selector = selectors.DefaultSelector()

    def __enter__(self) -> "Dispatcher":
        return self

    def __exit__(self, *_: object) -> None:
        for place in self.places:
            self._end(place)
        self._selector.close()

    def run(self, jobs: Sequence[Job], seconds: float = float("inf")) -> bool:
        """Do all jobs in their order, as places become free.

        Args:
            jobs: what to do.
            seconds: deal no further job after this long; those in work are finished.

        Returns:
            Whether all jobs were done.

        Raises:
            ModelRefused: if a worker's model rejects requests.
        """
        waiting, end = deque(jobs), time.monotonic() + seconds
        while True:
            for place in self.places:
                if waiting and place.job is None and time.monotonic() < end:
                    self._deal(place, waiting.popleft())
            if not any(place.job for place in self.places):
                return not waiting
            self.listener.changed(self.places)
            for place, message in self._messages():
                self._hear(place, message)

    def _deal(self, place: Place, job: Job) -> None:
        if place.process is None:
            self._start(place)
        place.job, place.since, place.doing = job, time.monotonic(), "starts"
        self._send(place, job.model_dump_json())

    def _start(self, place: Place) -> None:
        place.process = self.launch(place.gpu)
        place.unread = b""
        self._selector.register(place.process.stdout, selectors.EVENT_READ, place)
        self._send(place, self.settings.model_copy(update={"gpu": place.gpu}).model_dump_json())

    def _send(self, place: Place, line: str) -> None:
        assert place.process is not None
        with suppress(BrokenPipeError):  # a worker that has died is found by the end of its output
            place.process.stdin.write(line.encode() + b"\n")
            place.process.stdin.flush()

    def _messages(self) -> Iterator[tuple[Place, dict[str, Any]]]:
        """Wait for workers, at most a second, and yield whole messages; an empty one for a worker that has died."""
        for key, _ in self._selector.select(timeout=1.0):
            place = key.data
            data = os.read(key.fd, 1 << 16)
            if not data:
                yield place, {}
                continue
            *lines, place.unread = (place.unread + data).split(b"\n")
            for line in lines:
                yield place, json.loads(line)

    def _hear(self, place: Place, message: dict[str, Any]) -> None:
        if not message:
            self._lost(place)
        elif "refused" in message:
            raise ModelRefused(message["refused"])
        elif "begun" in message and place.job is not None:
            self.listener.begun(place.job, message["begun"])
            place.job = place.job.model_copy(update={"run": message["begun"]})
            self._send(place, "go on")
        elif "doing" in message:
            place.doing = message["doing"]
        elif "row" in message:
            self._finish(place, Row.model_validate(message["row"]))

    def _finish(self, place: Place, row: Row) -> None:
        self.listener.done(place, row)
        place.job, place.spent, place.doing = None, 0, ""

    def _lost(self, place: Place) -> None:
        """A worker has died: let another one go on with its job, or tell the job as failed."""
        how = self._end(place)
        job = place.job
        if job is None:
            return
        place.spent += 1
        if place.spent < LIVES:
            self._start(place)
            self._send(place, job.model_dump_json())
            return
        reason = f"{place.spent} workers died at it, the last one {how}"
        self._finish(place, job.failed("infra_error", reason))

    def _end(self, place: Place) -> str:
        """End a place's worker; how it ended, in words."""
        process, place.process = place.process, None
        if process is None:
            return ""
        self._selector.unregister(process.stdout)
        with suppress(BrokenPipeError):
            process.stdin.close()
        if place.job is None:  # it ends by itself, and closes its evaluator
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=GRACE)
        process.kill()
        status = process.wait()
        process.stdout.close()
        return f"by {signal.Signals(-status).name}" if status < 0 else f"with exit status {status}"

"""One run in a thread of this process: what it has said, whether it waits for an answer, and how it ended."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from egg_graph.agents.handoff_folder import OpenPrompt, open_prompts
from egg_graph.nodes.events import Event
from egg_graph.runs.results import Run
from egg_graph.schema import EggError

HANDOFF = "handoff"
"""The folder of prompts and answers in the folder of a run."""

Phase = Literal["working", "waiting_for_answer", "stopping", "ended", "stopped", "failed"]


class Stopped(Exception):
    """Ends a run between two of its steps, because somebody asked for it."""


class ActiveRun:
    """A run that this process works on, or has worked on.

    Args:
        work: runs it to its end, and tells this object its folder (`take_folder`) and its events (`listen`).
        folder: the run's folder, where it is known beforehand.
    """

    def __init__(self, work: Callable[["ActiveRun"], Run], folder: Path | None = None) -> None:
        self.folder = folder
        self.events: list[Event] = []
        self.told = 0
        """How many of them a client was told."""
        self.run: Run | None = None
        self.error: BaseException | None = None
        self._work = work
        self._started = threading.Event()
        if folder is not None:
            self._started.set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._to_the_end, name="egg-graph run", daemon=True)

    def start(self) -> Path:
        """Start the run, and return its folder.

        Raises:
            EggError: if the run is refused before its first step.
        """
        self._thread.start()
        self._started.wait()
        if self.folder is None:
            assert self.error is not None, "a run without a folder was refused"
            raise self.error
        return self.folder

    def stop(self) -> None:
        """Ask the run to stop before its next step."""
        self._stop.set()

    @property
    def phase(self) -> Phase:
        """What the run is doing."""
        if self.run is not None:
            return "ended"
        if self.error is not None:
            return "stopped" if isinstance(self.error, Stopped) else "failed"
        if self._stop.is_set():
            return "stopping"
        return "waiting_for_answer" if self.prompts() else "working"

    def prompts(self) -> list[OpenPrompt]:
        """Prompts that wait for an answer."""
        return [] if self.folder is None else open_prompts(self.folder / HANDOFF)

    def check(self) -> None:
        """Do nothing while the run is to go on.

        Raises:
            Stopped: if somebody asked for its end.
        """
        if self._stop.is_set():
            raise Stopped

    def listen(self, event: Event) -> None:
        """Keep an event of the run."""
        self.events.append(event)
        self.check()

    def take_folder(self, folder: Path) -> None:
        """Keep the folder of the run, which is about to start."""
        self.folder = folder
        self._started.set()

    def _to_the_end(self) -> None:
        try:
            self.run = self._work(self)
        except (EggError, Stopped) as error:
            self.error = error
        except BaseException as error:
            self.error = error
            raise
        finally:
            self._started.set()

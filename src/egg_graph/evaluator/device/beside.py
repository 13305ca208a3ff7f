"""Processes that run on the GPU beside a judge's own work, such as a sanitizer's.

They run while their judge shares the GPU with others, and are stopped while it has no turn, or measures.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

Paused = Callable[[], AbstractContextManager[object]]
"""Makes a block in which a process is stopped."""
GLANCE = 0.05
"""Seconds between two looks, while a process is stopped, at whether it was given up."""


class GivenUp(Exception):
    """Whoever waits for such a process is to end it: nobody wants what it tells."""


class Beside:
    """All such processes of one judge. Safe from several threads; `stop` and `let_run` are the judge's own thread's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._joined: dict[Joining, Paused] = {}
        self._stopped: ExitStack | None = ExitStack()
        """Holds what is stopped; None while they run."""
        self._run = threading.Event()

    def let_run(self) -> bool:
        """Let them run from now on; return whether they were stopped."""
        with self._lock:
            stopped, self._stopped = self._stopped, None
            if stopped is None:
                return False
            stopped.close()
            self._run.set()
            return True

    def stop(self) -> bool:
        """Stop them all, and those that join later; return whether they ran.

        What they have queued on the GPU is still done.
        """
        with self._lock:
            if self._stopped is not None:
                return False
            self._run.clear()
            self._stopped = ExitStack()
            for paused in self._joined.values():
                self._stopped.enter_context(paused())
            return True

    @contextmanager
    def joining(self) -> Iterator[Joining]:
        """Yield what a thread that starts such a process passes on as `give_way`; at the block's end it is given up."""
        joining = Joining(self)
        try:
            yield joining
        finally:
            joining.given_up = True
            with self._lock:
                self._joined.pop(joining, None)

    def _join(self, joining: Joining, paused: Paused) -> None:
        with self._lock:
            if joining in self._joined:
                return
            self._joined[joining] = paused
            if self._stopped is not None:
                self._stopped.enter_context(paused())

    def _wait(self, joining: Joining) -> None:
        while not self._run.wait(GLANCE) and not joining.given_up:
            pass


class Joining:
    """One process beside a judge's work, as the thread that waits for it sees it: called again and again meanwhile.

    The call takes as long as the process is stopped.
    """

    def __init__(self, beside: Beside) -> None:
        self._beside = beside
        self.given_up = False

    def __call__(self, paused: Paused) -> None:
        """Wait while the process is stopped.

        Raises:
            GivenUp: if the process is to end.
        """
        self._beside._join(self, paused)
        self._beside._wait(self)
        if self.given_up:
            raise GivenUp

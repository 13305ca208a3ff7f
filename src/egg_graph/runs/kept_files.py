"""Files that a run adds to its folder while it works. A disk that is full for a while costs no answer that was paid."""

import threading
from contextlib import suppress
from pathlib import Path

from egg_graph.runs.files import RESUME, cannot_write, write_whole


class KeptFiles:
    """Writes files into one folder, each whole or not at all. What cannot be written yet is written with the next one.

    Args:
        folder: the run's folder.
        name: the folder in it that holds the files; made with the first of them.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._run = folder
        self._folder = folder / name
        self._waiting: dict[str, str] = {}
        self._lock = threading.Lock()

    def write(self, name: str, text: str) -> None:
        """Write a file, now or later."""
        with self._lock:
            self._waiting[name] = text
            with suppress(OSError):  # `flush` tells it, if it does not pass
                self._write()

    def flush(self) -> None:
        """Write what waits.

        Raises:
            InfrastructureError: if it cannot be written.
        """
        with self._lock:
            try:
                self._write()
            except OSError as error:
                raise cannot_write(self._run, error, RESUME) from error

    def _write(self) -> None:
        for name, text in list(self._waiting.items()):
            self._folder.mkdir(exist_ok=True)
            write_whole(self._folder / name, text)
            del self._waiting[name]

"""The requests of a run, kept in its folder: one file for each, written whole or not at all.

requests/0001-coder.json   prompt, raw answer and cost of the first request: an `egg_graph.schema.ModelRequest`
"""

import threading
from pathlib import Path

from egg_graph.model_requests import REQUESTS, read_requests
from egg_graph.runs.kept_files import KeptFiles
from egg_graph.schema import ModelRefused, ModelRequest, Usage


class FolderLog:
    """Keeps the requests of one run in its folder (implements `egg_graph.model_requests.RequestLog`).

    Args:
        folder: the run's folder.
        booked: what the run's last checkpoint has booked. Requests after that were paid, and are owed; an answer among
            them is not asked for again.
    """

    def __init__(self, folder: Path, booked: Usage | None = None) -> None:
        self.folder = folder
        self.files = KeptFiles(folder, REQUESTS)
        self._lock = threading.Lock()
        kept = read_requests(folder)
        counts = (booked or Usage()).calls
        self._number = max([request.number for request in kept], default=0)
        self._unbooked: list[ModelRequest] = []
        for request in kept:
            if counts < request.usage.calls:
                self._unbooked.append(request)
            counts -= min(counts, request.usage.calls)
        self._owed = sum((request.usage for request in self._unbooked), Usage())
        self._closed = False

    def keep(self, request: ModelRequest) -> ModelRequest:
        """Write a request that has ended; return it with its number."""
        with self._lock:
            self._number += 1
            request = request.model_copy(update={"number": self._number})
            self._owed += request.usage
            self.files.write(f"{request.number:04d}-{request.role}.json", request.model_dump_json(indent=1) + "\n")
            return request

    def recall(self, request: ModelRequest) -> ModelRequest | None:
        """The answer to the same prompt that came before the run was stopped; each is returned once.

        Raises:
            ModelRefused: if the run has ended.
        """
        with self._lock:
            if self._closed:
                raise ModelRefused("the run has ended: no model is asked any more")
            known = next((r for r in self._unbooked if r.outcome == "answered" and r.key == request.key), None)
            if known is not None:
                self._unbooked.remove(known)
            return known

    def owed(self) -> Usage:
        """What the requests cost since this was last called."""
        with self._lock:
            owed, self._owed = self._owed, Usage()
            return owed

    def close(self) -> None:
        """Let no further request be sent, whatever thread is left."""
        with self._lock:
            self._closed = True

"""The requests of a run, kept in its folder: one file for each, written whole or not at all.

requests/0001-coder.json   prompt, raw answer and cost of the first request: an `egg_graph.schema.ModelRequest`
"""

import threading
from collections.abc import Collection
from pathlib import Path
from typing import cast

from langgraph.types import StateSnapshot

from egg_graph.model_requests import REQUESTS, read_requests
from egg_graph.routing import next_number
from egg_graph.runs.kept_files import KeptFiles
from egg_graph.schema import ModelRefused, ModelRequest, SideDraft, StageName, Usage
from egg_graph.state import OutputState
from egg_graph.steering.topology import SEPARATOR


class FolderLog:
    """Keeps the requests of one run in its folder (implements `egg_graph.model_requests.RequestLog`).

    Args:
        folder: the run's folder.
        booked: what the run's last checkpoint has booked. Requests after that were paid, and are owed; an answer among
            them is not asked for again.
        written: stage, attempt and number of the drafts that were written side by side since, and saved: their requests
            are booked as well.
    """

    def __init__(
        self, folder: Path, booked: Usage | None = None, written: Collection[tuple[StageName, int, int]] = ()
    ) -> None:
        self.folder = folder
        self.files = KeptFiles(folder, REQUESTS)
        self._lock = threading.Lock()
        kept = read_requests(folder)
        counts = (booked or Usage()).calls
        self._number = max([request.number for request in kept], default=0)
        self._unbooked: list[ModelRequest] = []
        for request in kept:
            saved = request.draft and (request.stage, request.attempt, request.draft) in written
            if counts < request.usage.calls and not saved:
                self._unbooked.append(request)
            counts -= min(counts, request.usage.calls)
        self._owed: dict[int, Usage] = {}
        for request in self._unbooked:
            self._owe(request)
        self._closed = False

    def keep(self, request: ModelRequest) -> ModelRequest:
        """Write a request that has ended; return it with its number."""
        with self._lock:
            self._number += 1
            request = request.model_copy(update={"number": self._number})
            self._owe(request)
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
            key = request.key
            known = next((r for r in self._unbooked if r.outcome == "answered" and r.key == key), None)
            if known is not None:
                self._unbooked.remove(known)
            return known

    def owed(self, draft: int = 0) -> Usage:
        """What the requests cost since this was last called: those for one draft, or all where a role works alone."""
        with self._lock:
            numbers = [draft] if draft else list(self._owed)
            return sum((self._owed.pop(number, Usage()) for number in numbers), Usage())

    def _owe(self, request: ModelRequest) -> None:
        self._owed[request.draft] = self._owed.get(request.draft, Usage()) + request.usage

    def close(self) -> None:
        """Let no further request be sent, whatever thread is left."""
        with self._lock:
            self._closed = True


def written_drafts(saved: StateSnapshot) -> set[tuple[StageName, int, int]]:
    """Stage, attempt and number of the drafts that are saved, though what they cost is not booked yet."""
    if not saved.tasks:
        return set()
    stage = cast(StageName, saved.tasks[0].name.partition(SEPARATOR)[0])
    attempt = next_number(cast(OutputState, saved.values))
    ended = [task.result for task in saved.tasks if task.name.endswith(f"{SEPARATOR}draft")]
    results = [result for result in ended if isinstance(result, dict)]
    drafts = [*saved.values.get("drafts", []), *(draft for result in results for draft in result.get("drafts", []))]
    return {(stage, attempt, SideDraft.model_validate(draft).number) for draft in drafts}

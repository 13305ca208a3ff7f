"""The tasks that a judge keeps: those met last, as far as memory goes."""

from __future__ import annotations

from collections.abc import Callable

from egg_graph.evaluator.problem.docket import Docket
from egg_graph.schema import KernelTask


class Dockets:
    """Dockets by task. A new task makes an evaluator forget the ones not met for longest, if all hold too much.

    Args:
        make: opens the docket of a task.
        most_bytes: what the cases of other tasks may hold together when a new one comes.
        forget: called with the digest of a task that is forgotten.
    """

    def __init__(
        self, make: Callable[[KernelTask], Docket], most_bytes: float, forget: Callable[[str], object] = lambda _: None
    ) -> None:
        self.make, self.most_bytes, self.forget = make, most_bytes, forget
        self._known: dict[str, Docket] = {}

    def of(self, task: KernelTask) -> Docket:
        """The task's docket, opened at first sight."""
        docket = self._known.pop(task.digest, None)
        if docket is None:
            while self._known and sum(known.nbytes for known in self._known.values()) > self.most_bytes:
                digest = next(iter(self._known))
                del self._known[digest]
                self.forget(digest)
            docket = self.make(task)
        self._known[task.digest] = docket
        return docket

    def clear(self) -> None:
        """Forget all of them."""
        self._known.clear()

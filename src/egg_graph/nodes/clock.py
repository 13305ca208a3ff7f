"""Count the seconds that a run works, in its state, so that a budget holds over a kill and a resume."""

import functools
import time
from collections.abc import Callable
from typing import Any


def clocked(node: Callable[..., Any]) -> Callable[..., Any]:
    """Add the node's own duration [s] to `state["seconds"]`."""

    @functools.wraps(node)
    def run(self: Any, state: Any, runtime: Any) -> Any:
        begun = time.monotonic()
        update = node(self, state, runtime)
        return {**update, "seconds": state.get("seconds", 0.0) + time.monotonic() - begun}

    return run

"""Count the seconds that the nodes work."""

import functools
import time
from collections.abc import Callable, Coroutine
from typing import Any


def count_seconds(node: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Add the node's own duration [s] to `state["seconds"]`, so that `max_seconds` holds over a kill and a resume.

    A node that returns `seconds` itself sets the count to which its duration is added.
    """

    @functools.wraps(node)
    async def run(self: Any, state: Any, runtime: Any) -> Any:
        start = time.monotonic()
        update = await node(self, state, runtime)
        before = update.get("seconds", state.get("seconds", 0.0))
        return {**update, "seconds": before + time.monotonic() - start}

    return run

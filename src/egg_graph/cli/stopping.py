"""Ctrl-C and SIGTERM stop a run in order, however the command was started."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer


@contextmanager
def stoppable() -> Iterator[None]:
    """Let SIGINT and SIGTERM stop what the block does.

    A shell starts a command in the background with SIGINT ignored, and Python then leaves it so: the run would go on,
    and pay. Here SIGINT counts all the same, and SIGTERM does what it does.

    Raises:
        KeyboardInterrupt: after SIGINT; typer makes it exit status 130.
        typer.Exit: with status 143 after SIGTERM.
    """
    terminated = False

    def stop(*_: Any) -> None:
        nonlocal terminated
        terminated = True
        signal.raise_signal(signal.SIGINT)  # asyncio cancels the run's task

    before = signal.signal(signal.SIGINT, signal.default_int_handler), signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except KeyboardInterrupt:
        if terminated:
            raise typer.Exit(128 + signal.SIGTERM) from None
        raise
    finally:
        signal.signal(signal.SIGINT, before[0])
        signal.signal(signal.SIGTERM, before[1])

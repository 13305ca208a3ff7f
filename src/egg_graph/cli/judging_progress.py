"""Show what a judge does while one kernel is judged, on standard error: standard output is for the verdict."""

import time
from types import TracebackType
from typing import Self

from rich.console import Console

from egg_graph.cli.console import plain, stderr
from egg_graph.evaluator.progress import Progress, hear_progress

QUIET = 15.0
"""Seconds without a line after which what is being done is told where there is no terminal."""


class JudgingProgress:
    """Tells what is being done: on a moving line in a terminal, else on a line after `quiet` seconds without one.

    Args:
        console: where it is told; standard error if left out.
        quiet: seconds without a line, where there is no terminal.
    """

    def __init__(self, console: Console | None = None, *, quiet: float = QUIET) -> None:
        self.console = console or stderr()
        self.quiet = quiet
        self._began = self._printed = time.monotonic()
        self._status = self.console.status("[dim]starts the judge[/]", spinner="dots")
        self._hearing = hear_progress(self._hear)

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._status.start()
        self._hearing.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hearing.__exit__(kind, error, trace)
        self._status.stop()

    def _hear(self, report: Progress) -> None:
        if not report.doing:
            return
        now = time.monotonic()
        told = f"{plain(report.doing)}, {now - self._began:.0f} s"
        if self.console.is_terminal:
            self._status.update(f"[dim]{told}[/]")
        elif now - self._printed >= self.quiet:
            self._printed = now
            self.console.print(told, soft_wrap=True)

"""Show a bench while it runs: one line a problem that is done, a bar with the time left, and what every place is at."""

import time
from collections.abc import Sequence
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.text import Text

from egg_graph.cli.console import plain
from egg_graph.cli.verdict import color

if TYPE_CHECKING:
    from egg_graph.bench import Display, Results, Row
    from egg_graph.bench.dispatch import Place

QUIET = 60.0
"""Seconds without a line after which what is being done is told, where there is no terminal."""


class BenchProgress:
    """A context manager: the moving part disappears at its end. Without a terminal only whole lines are printed.

    The time left is that of the problems so far, for as many as are left on as many places.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self.total = self.before = self.done = 0
        self.began = self._printed = time.monotonic()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
            auto_refresh=False,
        )
        self._all: TaskID | None = None
        self._places: Sequence[Place] = ()
        self._live = Live(get_renderable=self._draw, console=console, transient=True, refresh_per_second=2)

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._live.start()
        else:
            self.console.print("starts the judges")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.console.is_terminal:
            self._live.stop()

    @property
    def display(self) -> "Display":
        """What a bench calls."""
        from egg_graph.bench import Display

        return Display(started=self.start, places=self.show_places, row=self.show_row)

    def start(self, total: int, done: int) -> None:
        """Begin with what an earlier process did."""
        self.total, self.before, self.began = total, done, time.monotonic()
        self._all = self._bar.add_task("[bold]runs[/]", total=total, completed=done, left="")
        if done:
            self.console.print(f"{done} of {total} are done already")

    def show_row(self, row: "Row") -> None:
        """Print a finished problem."""
        self.done += 1
        self._printed = time.monotonic()
        name = plain(row.name) + (f" [dim]without[/] {plain(row.without)}" if row.without else "")
        figure = "" if row.ratio is None else f" {row.ratio:.3f}x"
        why = "" if row.usable else f"  {plain(row.reason)}"
        count = f"[dim]{self.before + self.done:>4}/{self.total}[/]"
        status = f"[{color(row.status)}]{plain(row.status.replace('_', ' '))}[/]"
        left = "" if self.console.is_terminal else f"  [dim]{self.left()}[/]"
        again = "  [dim]resumed[/]" if row.resumed else ""
        self.console.print(f"{count} {name}  {status}{figure}{again}{why}{left}", soft_wrap=True)
        if self._all is not None:
            self._bar.update(self._all, completed=self.before + self.done, left=self.left())

    def show_places(self, places: "Sequence[Place]") -> None:
        """Tell what every place is at."""
        self._places = places
        if not self.console.is_terminal and time.monotonic() - self._printed >= QUIET:
            self._printed = time.monotonic()
            for line in self._at_work():
                self.console.print(Text.from_markup(line), soft_wrap=True)

    def _draw(self) -> Group:
        """The bar, and a line for every place."""
        lines = self._at_work()
        return Group(self._bar.get_renderable(), *(Text.from_markup(line, overflow="ellipsis") for line in lines))

    def _at_work(self) -> list[str]:
        """What every place is at, as markup."""
        now = time.monotonic()
        return [
            f"[dim]{place.number}[/] {plain(place.job.name)} [dim]{plain(place.doing)}, {now - place.since:.0f} s[/]"
            for place in self._places
            if place.job is not None
        ]

    def left(self) -> str:
        """The time left, in words."""
        left = self.total - self.before - self.done
        if not left:
            return "done"
        seconds = (time.monotonic() - self.began) / self.done * left if self.done else None
        return "" if seconds is None else f"{timedelta(seconds=round(seconds))} left"

    def summary(self, results: "Results") -> None:
        """Print the statistics of the whole."""
        from egg_graph.bench.statistics import summarize
        from egg_graph.bench.table import headline

        for line in headline(results, summarize(results.whole)):
            if line:
                self.console.print(plain(line), soft_wrap=True)

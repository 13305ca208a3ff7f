"""Show a run while it happens: one line per event, and a moving last line that says what is being done."""

import time
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text

from egg_graph.cli.console import plain
from egg_graph.cli.verdict import color
from egg_graph.schema import USABLE

_WORK = {
    "prepare": "the task is prepared",
    "baseline": "the reference is run, and measured if there is a GPU",
    "contender": "the embedded expert's kernel is judged",
    "open": "the stage's metrics of the best kernel are taken",
    "analyst": "the analyst looks for the bottleneck",
    "coder": "the coder writes",
    "draft": "several coders write side by side",
    "judge": "their drafts are judged side by side",
    "evaluator": "the evaluator judges",
    "debugger": "the debugger looks for the cause",
    "tuner": "the tuner sweeps",
    "conclude": "the finalist is judged",
}
"""What a node does while it works. Those that are not here take no time."""
_WAITS = "waits "
"""How a report begins that tells what is waited for."""
_UNUSABLE = "the answer cannot be used"
"""How a report begins that tells why a model is asked again."""


class Progress:
    """Prints the events of a run (`egg_graph.nodes.events`). A context manager: the last line disappears at its end.

    Where standard output is no terminal the lines stay the same, without the moving last one. What is waited for is
    then a line of its own, once for each wait; so is what is being done where nothing was printed for `quiet` seconds.

    Args:
        console: where it prints.
        ranks_untimed: whether a sweep chooses a configuration also where nothing is timed (knob `sweep`).
        quiet: seconds without a line after which what is being done is told, where there is no terminal.

    Attributes:
        working: what the last line says.
    """

    def __init__(self, console: Console, *, ranks_untimed: bool = True, quiet: float = 30.0) -> None:
        self.console = console
        self.ranks_untimed = ranks_untimed
        self.quiet = quiet
        self._printed = time.monotonic()
        self.trials = 0
        self.working = "starts"
        self._sweep = self._wait = self._cut = ""
        self._swept = False
        self._compared = self._timed = False
        self._status: Status = console.status(self.working, spinner="dots")

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._status.start()
        else:
            self._print("starts the judge")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._status.stop()

    def __call__(self, event: Any) -> None:
        """Show one event; unknown kinds are ignored."""
        match event.get("event"):
            case "started" | "working":
                self._at_work(event)
            case "baseline":
                self._baseline(event)
            case "contender":
                self._line(f"[bold]contender[/]  [dim]none: {plain(event.get('reason', ''))}[/]")
            case "stage":
                self._stage(event)
            case "role":
                self._role(event)
            case "request":
                self._request(event)
            case "sweep":
                self._cut = f"; {plain(event.get('reason', ''))}"
            case "trial":
                self._trial(event)
            case "attempt":
                self._attempt(event)
            case "memory":
                self._line(f"[bold]memory[/]    [dim]{plain(event.get('reason', ''))}[/]")
            case "verdict":
                self._say("the run's folder is written")

    def _print(self, line: object, **how: Any) -> None:
        self._printed = time.monotonic()
        self.console.print(line, **how)

    def _line(self, text: str) -> None:
        self._print(Text.from_markup(text), overflow="ellipsis", no_wrap=self.console.is_terminal)

    def _detail(self, who: str, text: str) -> None:
        """A line under an attempt, its continuation indented like its beginning."""
        grid = Table.grid(padding=(0, 1))
        grid.add_column(width=6)
        grid.add_column(width=9)
        grid.add_column()
        grid.add_row("", f"[dim]{plain(who)}[/]", text)
        self._print(grid)

    def _say(self, what: str) -> None:
        self.working = what
        self._status.update(f"[dim]{plain(what)}[/]")

    def _at_work(self, event: Any) -> None:
        """Tell on the last line who works, at what, and for how long."""
        node = str(event.get("node"))
        if node not in _WORK:
            return
        if event["event"] == "started":
            self._sweep = f"configuration {event['number']} of {event['of']}" if "number" in event else ""
        place = f"attempt {event['attempt']} ({event.get('mode')})" if "attempt" in event else ""
        seconds = event.get("seconds", 0.0)
        self._tell_wait(event.get("doing", ""))
        told = ": ".join(filter(None, [place, _WORK[node], self._sweep, event.get("doing")]))
        self._say(f"{told}, {seconds:.0f} s" if seconds >= 1 else told)
        if not self.console.is_terminal and time.monotonic() - self._printed >= self.quiet:
            self._print(plain(self.working), soft_wrap=True)

    def _tell_wait(self, doing: str) -> None:
        """Print the beginning of a wait where no last line shows it, and why an answer is asked for again."""
        wait = doing if doing.startswith((_WAITS, _UNUSABLE)) else ""
        lasting = doing.startswith(_UNUSABLE) or not self.console.is_terminal
        if wait and wait != self._wait and lasting:
            self._print(plain(wait), soft_wrap=True)
        self._wait = wait

    def _baseline(self, event: Any) -> None:
        parts = [
            f"{name} {event[key]:.4g} ms"
            for name, key in (("floor", "floor_ms"), ("eager", "eager_ms"), ("torch.compile", "compile_ms"))
            if event.get(key)
        ]
        if event.get("status") == "unevaluable":
            parts = [f"[red]unevaluable[/] {plain(event.get('reason', ''))}"]
        elif not event.get("eager_ms"):
            parts.append("[dim]nothing is timed here[/]")
        self._line(f"[bold]baseline[/]  {'  '.join(parts)}")
        if event.get("uncounted"):
            self._detail(
                "", f"the floor leaves out products that could not be counted: {', '.join(event['uncounted'])}"
            )
        if event.get("tuned"):
            self._detail("", plain(event["tuned"]))

    def _stage(self, event: Any) -> None:
        name = str(event["stage"]).replace("_", " ")
        if event.get("status") == "opened":
            self.trials, self._swept, self._cut = 0, False, ""
            self._compared = self._timed = False
            self._line(f"[bold]{name}[/]")
        elif event.get("status") == "skipped":
            self._line(f"[bold]{name}[/]  [dim]{plain(event.get('reason', ''))}[/]")
        else:
            status = str(event.get("status", ""))
            self._unfruitful_sweep()
            told = event.get("reason") and status != "no_kernel"  # the coder has said why there is none
            left = f"; left: {plain(event['reason'])}" if told else ""
            if status != "improved":
                self._detail("", f"[dim]{plain(status.replace('_', ' '))}{left}[/]")
            elif left:  # the attempt itself was marked
                self._detail("", f"[dim]ended{left}[/]")

    def _role(self, event: Any) -> None:
        status, reason = str(event.get("status", "")), plain(event.get("reason", ""))
        if event.get("role") != "coder":
            self._detail(str(event.get("role")), reason or plain(status.replace("_", " ")))
        elif status == "no_code":
            self._detail("coder", f"[red]no code[/] {reason}")
        elif status == "dropped":
            self._detail("coder", f"draft {event.get('draft')} dropped: {reason}")
        elif status in ("declined", "side_by_side"):
            self._detail("coder", reason)

    def _request(self, event: Any) -> None:
        """Tell of a request that failed; what the others cost is told at the end."""
        if event.get("status") != "answered":
            again = event.get("again_in")
            then = "" if again is None else f"; asked again in {again:.0f} s"
            self._detail("model", f"[yellow]{plain(event.get('status'))}[/] {plain(event.get('reason', ''))}{then}")

    def _trial(self, event: Any) -> None:
        self.trials += 1
        self._compared = self._compared or event.get("status") in USABLE
        self._timed = self._timed or event.get("milliseconds") is not None
        knobs = ", ".join(f"{knob}={value}" for knob, value in event.get("config", {}).items())
        self._say(f"{_WORK['tuner']}: {self.trials} configurations done, the last {event.get('status')} ({knobs})")

    def _unfruitful_sweep(self) -> None:
        """Say what became of a sweep that led to no attempt."""
        if self.trials and not self._swept:
            others = f"{self.trials - 1} other configuration{'' if self.trials == 2 else 's'} tried"
            untimed = self._compared and not self._timed
            if untimed and not self.ranks_untimed:
                self._detail("tuner", f"{others}{self._cut}; nothing is timed here: none is chosen")
                return
            why = "; nothing is timed here: lower bounds and large spills rank them" if untimed else ""
            self._detail("tuner", f"{others}, none better than the current one{self._cut}{why}")

    def _attempt(self, event: Any) -> None:
        self._swept = self._swept or event.get("mode") == "tune"
        status = str(event["status"])
        figures = f"[{color(status)}]{status:<13}[/] {_error(event)}  {_time(event)}"
        mark = (
            "[green]best so far[/]"
            if event.get("improved")
            else ("[dim]the same program as before[/]" if event.get("repeated") else "")
        )
        whose = "[cyan]yours[/]" if event.get("author") == "user" else ""
        if event["attempt"] == 0:
            whose = "[dim]the contender to beat[/]"
        swept = f"[dim]of {self.trials} configurations[/]" if event.get("mode") == "tune" else ""
        told = (f"  {event['attempt']:>3}  {event.get('mode', ''):<9} {figures}", mark, whose, swept)
        self._line(" ".join(filter(None, told)))
        if status not in ("faster", "correct"):
            self._detail("", plain(event.get("reason", "")))


def _error(event: Any) -> str:
    """Error against its budget, padded to a column."""
    error, budget = event.get("error"), event.get("budget")
    text = f"error {error:.1e} of {budget:.1e}" if error is not None and budget is not None else ""
    return f"{text:<24}"


def _time(event: Any) -> str:
    """Milliseconds where a GPU measured them; otherwise the lower bound, marked as a bound."""
    if (milliseconds := event.get("milliseconds")) is not None:
        ratio = event.get("ratio")
        return f"{milliseconds:.4g} ms" + (f" ({ratio:.2f}x)" if ratio is not None else "")
    bound = event.get("bound_ms")
    return "" if bound is None else f"bound {bound:.4g} ms"

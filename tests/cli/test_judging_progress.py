"""`egg-graph evaluate` tells on standard error what the judge does; standard output is the verdict's alone."""

import io
import re

from rich.console import Console

from egg_graph.cli.judging_progress import JudgingProgress
from egg_graph.evaluator.progress import report_progress


def told(*reports, quiet, terminal=False):
    written = io.StringIO()
    console = Console(file=written, force_terminal=terminal, width=80, _environ={"TERM": "xterm"})
    with JudgingProgress(console, quiet=quiet):
        for report in reports:
            report_progress(report)
    report_progress("is heard by nobody any more")
    return written.getvalue()


def test_without_a_terminal_long_silence_is_broken_by_a_line():
    lines = told("makes inputs", "", "compares [red]answers[/]", quiet=0.0).splitlines()
    assert [re.sub(r"\d+ s$", "N s", line) for line in lines] == ["makes inputs, N s", "compares [red]answers[/], N s"]


def test_without_a_terminal_a_short_evaluation_prints_nothing():
    assert told("makes inputs", quiet=60.0) == ""


def test_a_terminal_shows_what_is_done_on_its_last_line():
    assert re.search(r"makes inputs, \d+ s", told("makes inputs", quiet=60.0, terminal=True))

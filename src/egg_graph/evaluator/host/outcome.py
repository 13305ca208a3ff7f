"""How a child ended, as a finding: silence, death and lateness have names."""

from __future__ import annotations

import re
import signal

from egg_graph.evaluator.host.fork_server import Ended
from egg_graph.schema import Finding

_TOO_MUCH = {
    "processes": Finding(
        kind="too_many_processes",
        message="the candidate started too many processes or threads",
        cure="a kernel starts none: remove fork, subprocess, threading and multiprocessing",
    ),
    "memory": Finding(
        kind="memory_exceeded",
        message="the candidate's processes took too much memory and were ended",
        cure="allocate only what one forward needs; sizes come from the inputs",
    ),
    "disk": Finding(
        kind="memory_exceeded", message="the candidate filled the disk and was ended", cure="a kernel writes no files"
    ),
}


def finding_of(end: Ended, *, limit: float) -> Finding | None:
    """What is wrong with how a child ended; None if it gave an answer.

    Args:
        end: as the fork server told it.
        limit: seconds it was given, for all it did or for the step that it died in.
    """
    if end.cause == "timeout":
        return _overdue(end, limit)
    if end.cause in _TOO_MUCH:
        return _TOO_MUCH[end.cause].model_copy(update={"where": _last_line(end.log)})
    if end.cause == "killed":
        message = "the candidate's process was killed from outside (SIGKILL), which a candidate cannot do to itself"
        return Finding(kind="infrastructure", message=message)
    if end.cause == "signal":
        return _killed(end, limit)
    report = end.report
    if report is not None and "finding" in report:
        return Finding.model_validate(report["finding"])
    if report is not None and "exited" in report:
        return exited(report["exited"])
    if report is None or "answer" not in report or end.code != 0:
        return exited(str(end.code))
    return None


def exited(code: str) -> Finding:
    """The candidate left instead of answering."""
    return Finding(
        kind="exited",
        message=f"the candidate ended the process (exit status {code}) instead of returning an answer",
        cure="remove exit() and SystemExit; forward must return the result",
    )


def _overdue(end: Ended, limit: float) -> Finding:
    return Finding(
        kind="timeout",
        message=f"no answer within {limit:.0f} s",
        where=_last_line(end.log),
        cure="look for a loop whose condition never becomes false, or a grid far larger than the data",
    )


def _killed(end: Ended, limit: float) -> Finding:
    name = signal.Signals(end.code).name if end.code in {s.value for s in signal.Signals} else f"signal {end.code}"
    if end.code == signal.SIGALRM:  # see child.name_the_line_when_stuck
        return _overdue(end, limit)
    if end.code == signal.SIGXCPU:
        return Finding(kind="timeout", message="out of processor time", where=_last_line(end.log))
    if end.code == signal.SIGKILL:
        return Finding(kind="crashed", message="the process was killed (SIGKILL); by whom cannot be told here")
    return Finding(
        kind="crashed",
        message=f"the process died of {name}",
        where=_last_line(end.log),
        cure="look for memory read or written through a wrong pointer, shape or stride",
    )


def _last_line(log: str) -> str:
    """Innermost line of the candidate in the last Python traceback of the log."""
    found = re.search(r'File "[^"]*candidate\.py", line (\d+) in (\w+)', log)
    return f"line {found[1]}, in {found[2]}" if found else ""

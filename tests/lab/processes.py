"""Processes as `/proc` shows them: their descendants, memory, processor time and open descriptors."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

from egg_graph.evaluator.judge import process as judge_process

PROC = Path("/proc")


@dataclass(frozen=True)
class Process:
    """One process. Its start time distinguishes it from a later process with the same number."""

    pid: int
    parent: int
    started: int
    """Start time in clock ticks since boot."""

    @property
    def alive(self) -> bool:
        """Whether it runs; a process that ended and was not yet waited for does not."""
        now, state = _read(self.pid)
        return now is not None and now.started == self.started and state not in ("Z", "X")

    @property
    def command(self) -> str:
        """Command line; empty where the process ended."""
        try:
            return (PROC / str(self.pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            return ""

    @property
    def resident_bytes(self) -> int:
        """Resident memory [byte]; 0 where the process ended."""
        try:
            return int((PROC / str(self.pid) / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except OSError:
            return 0

    @property
    def age_seconds(self) -> float:
        """Seconds since it started."""
        return time.clock_gettime(time.CLOCK_BOOTTIME) - self.started / os.sysconf("SC_CLK_TCK")

    @property
    def cpu_seconds(self) -> float:
        """User time it took by itself [s]; 0 where the process ended."""
        try:
            fields = (PROC / str(self.pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            return 0.0
        return int(fields[11]) / os.sysconf("SC_CLK_TCK")

    @property
    def descriptors(self) -> int:
        """Number of open descriptors; 0 where the process ended or belongs to another user."""
        try:
            return len(os.listdir(PROC / str(self.pid) / "fd"))
        except OSError:
            return 0

    def holds(self, folder: str) -> bool:
        """Whether it works in a folder, or has the folder in its environment."""
        try:
            cwd = os.readlink(PROC / str(self.pid) / "cwd")
            return cwd.startswith(folder) or folder.encode() in (PROC / str(self.pid) / "environ").read_bytes()
        except OSError:
            return False


def all_processes() -> tuple[Process, ...]:
    """Every process that this user can see."""
    found = (_read(int(name))[0] for name in os.listdir(PROC) if name.isdigit())
    return tuple(process for process in found if process is not None)


def descendants(of: int | None = None) -> tuple[Process, ...]:
    """Children of a process, their children, and so on; of this process if `of` is None."""
    children: dict[int, list[Process]] = {}
    for process in all_processes():
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    pending = [of if of is not None else os.getpid()]
    while pending:
        born = children.get(pending.pop(), ())
        found += born
        pending += [child.pid for child in born]
    return tuple(found)


def judges(of: int | None = None) -> tuple[Process, ...]:
    """The evaluators' judge processes among the descendants of a process."""
    return tuple(process for process in descendants(of) if judge_process.__name__ in process.command)


def _read(pid: int) -> tuple[Process | None, str]:
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:  # the process ended meanwhile
        return None, ""
    fields = text.rpartition(")")[2].split()  # the name, in brackets, may hold anything
    return Process(pid=pid, parent=int(fields[1]), started=int(fields[19])), fields[0]

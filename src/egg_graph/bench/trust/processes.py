"""What `/proc` says of our processes: who descends from whom, how much memory and how many descriptors they hold."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True)
class Process:
    """One process; its start time tells it from a later one with the same number."""

    pid: int
    parent: int
    started: int
    """Clock ticks since boot."""

    @property
    def alive(self) -> bool:
        """Whether it runs; one that ended and was not yet waited for does not."""
        now, state = _read(self.pid)
        return now is not None and now.started == self.started and state not in ("Z", "X")

    @property
    def command(self) -> str:
        """Its command line; empty where it ended."""
        try:
            return (PROC / str(self.pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            return ""

    @property
    def resident_bytes(self) -> int:
        """Resident memory; 0 where it ended."""
        try:
            return int((PROC / str(self.pid) / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except OSError:
            return 0

    @property
    def age_seconds(self) -> float:
        """Since it started."""
        return time.clock_gettime(time.CLOCK_BOOTTIME) - self.started / os.sysconf("SC_CLK_TCK")

    @property
    def cpu_seconds(self) -> float:
        """Processor time it took by itself; 0 where it ended."""
        try:
            fields = (PROC / str(self.pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            return 0.0
        return int(fields[11]) / os.sysconf("SC_CLK_TCK")

    @property
    def descriptors(self) -> int:
        """Open descriptors; 0 where it ended or is another user's."""
        try:
            return len(os.listdir(PROC / str(self.pid) / "fd"))
        except OSError:
            return 0

    def holds(self, folder: str) -> bool:
        """Whether it works in a folder or got it in its environment."""
        try:
            cwd = os.readlink(PROC / str(self.pid) / "cwd")
            return cwd.startswith(folder) or folder.encode() in (PROC / str(self.pid) / "environ").read_bytes()
        except OSError:
            return False


def everybody() -> tuple[Process, ...]:
    """Every process of this machine that may be seen."""
    found = (_read(int(name))[0] for name in os.listdir(PROC) if name.isdigit())
    return tuple(process for process in found if process is not None)


def descendants(of: int | None = None) -> tuple[Process, ...]:
    """Children, their children, and so on, of a process; of this one if None is named."""
    children: dict[int, list[Process]] = {}
    for process in everybody():
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    open_ends = [of if of is not None else os.getpid()]
    while open_ends:
        for child in children.get(open_ends.pop(), ()):
            found.append(child)
            open_ends.append(child.pid)
    return tuple(found)


def judges(of: int | None = None) -> tuple[Process, ...]:
    """The judge processes among the descendants."""
    return tuple(process for process in descendants(of) if "egg_graph.evaluator.judge.process" in process.command)


def _read(pid: int) -> tuple[Process | None, str]:
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:  # it ended meanwhile
        return None, ""
    fields = text.rpartition(")")[2].split()  # its name, in brackets, may hold anything
    return Process(pid=pid, parent=int(fields[1]), started=int(fields[19])), fields[0]

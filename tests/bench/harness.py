"""Runs benches whose process is killed with SIGKILL at chosen moments, and starts each again until it is done.

Started as a script, so that benches and workers are forked from a process with one thread and everything imported.
Prints one JSON line for the undisturbed bench, and one for each that was killed.
Usage: harness.py FOLDER
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import egg_graph.bench.output
import egg_graph.bench.run
import egg_graph.runs.optimize
from egg_graph.bench import find_problems, run_bench
from egg_graph.bench.journal import Journal
from egg_graph.bench.worker import serve
from egg_graph.evaluator import environment
from egg_graph.evaluator.sandbox.confine import die_with_parent
from tests.bench import fake

egg_graph.bench.output.render = lambda results, figures, trajectories: "not the subject"
for _name in ("code_digest", "commit", "evaluator_digest"):
    setattr(egg_graph.bench.run, _name, lambda: "the same for all")

WRITES = ((2, "torn"), (3, "before"), (4, "after"), (5, "torn"))
"""Where the bench dies: at its n-th write to the journal. The first are the terms, then `begun` and `row` in turns."""
CALLS = (2, 5)
"""Where it dies: while its workers' evaluators begin their n-th call, all of them together."""


@dataclass
class Forked:
    """A worker as a fork of the bench; see `egg_graph.bench.dispatch.Launched`."""

    pid: int
    stdin: IO[bytes]
    stdout: IO[bytes]

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        with suppress(ChildProcessError):
            return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return 0


def fork_worker(gpu: str | None) -> Forked:
    """Start a worker."""
    (jobs, jobs_in), (answers, answers_in) = os.pipe(), os.pipe()
    pid = os.fork()
    if pid:
        os.close(jobs)
        os.close(answers_in)
        return Forked(pid, open(jobs_in, "wb"), open(answers, "rb"))
    os.dup2(jobs, 0)
    os.dup2(answers_in, 1)
    os.closerange(3, 256)  # as exec does, so that no worker holds another's pipe or the journal's lock
    die_with_parent()
    with open(0, closefd=False) as messages_in, open(1, "w", closefd=False) as messages_out:
        serve(messages_in, messages_out)
    os._exit(0)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_at_write(number: int, how: str) -> None:
    """Let this process die before its n-th write to the journal, in the middle of it, or right after it."""
    write, count = Journal._write, 0

    def counted(self: Journal, entry: dict[str, Any]) -> None:
        nonlocal count
        count += 1
        if count == number and how == "torn":
            os.write(self._file, json.dumps(entry).encode()[:40])
        if count == number and how != "after":
            die()
        write(self, entry)
        if count == number:
            die()

    Journal._write = counted  # type: ignore[method-assign]


def kill_at_call(number: int, log: Path) -> None:
    """Let the bench die when its workers' evaluators begin their n-th call."""
    note, bench = fake.note, os.getpid()

    def counted(task: Any, what: str) -> None:
        note(task, what)
        if len(log.read_text().splitlines()) == number:
            os.kill(bench, signal.SIGKILL)
            signal.pause()

    fake.note = counted


def bench(folder: Path, suite: Path, places: int, doom: Callable[[], None] | None = None) -> None:
    """Run a bench in a child to its end, or to its death and then once more."""
    child = os.fork()
    if child == 0:
        os.environ[fake.LOG] = str(folder / "log")
        if doom is not None:
            doom()
        run_bench(
            find_problems(str(suite)),
            folder / "out",
            runs_dir=folder / "runs",
            parts="tests.bench.fake:parts",
            device="none",
            max_optimizations=0,
            workers=places,
            launch=fork_worker,
        )
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and doom is not None:
        bench(folder, suite, places)
    elif status:
        sys.exit(f"{folder.name}: ended with {status}")


def told(folder: Path) -> dict[str, Any]:
    """What a bench left: its rows without seconds and folders, its table without times, and the calls it made."""
    rows = json.loads((folder / "out.json").read_text())["rows"]
    for row in rows:
        del row["seconds"], row["usage"], row["run"]
    page = (folder / "out.md").read_text().splitlines()
    return {
        "where": folder.name,
        "resumed": [row.pop("resumed") for row in rows],
        "rows": rows,
        "table": [line for line in page if not line.startswith(("| started", "| at once"))],
        "calls": (folder / "log").read_text().splitlines(),
    }


def main() -> None:
    base = Path(sys.argv[1])
    environment()  # kept in memory, for all that are forked
    fake.write_suite(base / "suite", "a_relu", "kept_relu")
    run(base / "undisturbed", base / "suite", 1)
    for number, how in WRITES:
        run(base / f"write {number} {how}", base / "suite", 1, partial(kill_at_write, number, how))
    for number in CALLS:
        folder = base / f"call {number}"
        run(folder, base / "suite", 2, partial(kill_at_call, number, folder / "log"))


def run(folder: Path, suite: Path, places: int, doom: Callable[[], None] | None = None) -> None:
    """Run one bench, and print what it left."""
    folder.mkdir()
    bench(folder, suite, places, doom)
    print(json.dumps(told(folder)), flush=True)


if __name__ == "__main__":
    main()

"""Runs `optimize` in child processes that are killed with SIGKILL after their n-th write to the checkpoint database.

Started as a script, so that the children are forked from a process with one thread and everything imported.
Usage: harness.py FOLDER FIRST STEP; prints one JSON line per kill point, and first one for the undisturbed run.
"""

import json
import os
import signal
import sys
from pathlib import Path

import jinja2  # noqa: F401 - imported for its weight, as the next two: the report that ends a run needs them
import matplotlib.backends.backend_svg
import matplotlib.figure  # noqa: F401
from langgraph.checkpoint.sqlite import SqliteSaver

from egg_graph import Run, optimize, resume
from tests.graph.scripted import REFERENCE, ScriptedEvaluator, StatelessTeam, kernel, tunable

SCRIPT = [
    kernel("bad", 1),
    tunable("ok", 9, "parallel_mapping", [9, 7, 8]),
    kernel("bad", 2),
    kernel("ok", 8),
    kernel("broken", 3),
    tunable("ok", 6, "memory_optimization", [6, 5]),
]


def kill_after(writes: int, note: Path) -> None:
    """Let this process die right after its n-th write to the database.

    Args:
        writes: after which write it dies.
        note: made if that write is a task's, which LangGraph makes in a thread of its own, also while the next task is
            at work: what that one has begun is begun again.
    """
    left = writes

    def counted(method):
        def write(self, *args, **kwargs):
            nonlocal left
            result = method(self, *args, **kwargs)
            left -= 1
            if left == 0:
                if method.__name__ == "put_writes":
                    note.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return write

    SqliteSaver.put = counted(SqliteSaver.put)
    SqliteSaver.put_writes = counted(SqliteSaver.put_writes)


def start(folder: Path, run_id: str | None = None) -> Run:
    """Start a run in `folder`, or finish the one that is there."""
    parts = {"team": StatelessTeam(SCRIPT), "evaluator": ScriptedEvaluator(log=folder / "log"), "runs_dir": folder}
    if run_id is not None:
        return resume(run_id, principles=(), **parts)
    return optimize(REFERENCE, name="relu", target="h100", max_optimizations=1, principles=(), **parts)


def state_of(run: Run) -> dict:
    """Everything the run established but the seconds it took."""
    dumped = {k: v for k, v in run.state.items() if k != "seconds"}
    return json.loads(json.dumps(dumped, default=lambda value: json.loads(value.model_dump_json())))


def forked(folder: Path, work) -> tuple[int, dict | None]:
    """Do `work` in a child; its wait status, and its answer if it lived to give one."""
    answer = folder / "answer.json"
    child = os.fork()
    if child == 0:
        answer.write_text(json.dumps(work()))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return status, json.loads(answer.read_text()) if answer.exists() else None


def lines_of(log: Path) -> list[str]:
    """What the evaluator was asked, in order."""
    return log.read_text().splitlines() if log.exists() else []


def killed_and_resumed(folder: Path, writes: int) -> dict:
    """One run that dies after `writes` writes, and its resumption in another process."""
    folder.mkdir(parents=True)

    def doomed() -> dict:
        if writes:
            kill_after(writes, folder / "in_a_task")
        return state_of(start(folder))

    status, state = forked(folder, doomed)
    begun = lines_of(folder / "log")
    died = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    if died:
        run_id = next(folder.glob("*/run.json")).parent.name
        status, state = forked(folder, lambda: state_of(start(folder, run_id)))
    run_folder = next(folder.glob("*/run.json")).parent
    return {
        "writes": writes,
        "died": died,
        "status": status,
        "state": state,
        "log": lines_of(folder / "log"),
        "may_repeat": begun[-1:] if (folder / "in_a_task").exists() else [],
        "files": sorted(path.name for path in run_folder.iterdir()),
    }


def main() -> None:
    base, first, step = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    print(json.dumps(killed_and_resumed(base / "undisturbed", 0)), flush=True)
    writes = first
    while True:
        result = killed_and_resumed(base / str(writes), writes)
        print(json.dumps(result), flush=True)
        if not result["died"]:
            return
        writes += step


if __name__ == "__main__":
    main()

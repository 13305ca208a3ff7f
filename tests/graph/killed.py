"""Runs the graph in child processes that are killed with SIGKILL after their n-th write to the checkpoints.

Started as a script, so that the children are forked from a process with one thread and everything imported.
Usage: killed.py FOLDER FORM FIRST STEP; prints one JSON line per kill point, and first one for the undisturbed run.
"""

import json
import os
import signal
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

from egg_graph import Context, build_egg_graph
from tests.graph.scripted import REFERENCE, ScriptedEvaluator, StatelessTeam, kernel, tunable

SCRIPT = [kernel("bad", 1), kernel("ok", 9), tunable("ok", 6, "algorithmic_structure", [6, 5])]
CONTEXT = Context(target="h100", max_optimizations=1, stages=("algorithmic_structure",))
CONFIG = {"configurable": {"thread_id": "one"}}


class Paid(StatelessTeam):
    """Writes a line into the log for every answer, as a model's endpoint writes its bill."""

    def __init__(self, log: Path) -> None:
        super().__init__(SCRIPT)
        self.log = log

    def write(self, brief):
        return self._pay("coder", super().write(brief))

    def analyze(self, brief):
        return self._pay("analyst", super().analyze(brief))

    def debug(self, brief):
        return self._pay("debugger", super().debug(brief))

    def _pay(self, role, answer):
        with self.log.open("a") as file:
            file.write(f"{role}\n")
        return answer


class Shared(TypedDict, total=False):
    """A parent's state that shares keys with the run."""

    reference: str
    kernel: str
    verdict: str
    shipped: str


class Foreign(TypedDict, total=False):
    """A parent's state that shares none."""

    request: str
    answer: str
    shipped: str


def build(form: str, folder: Path, saver: SqliteSaver):
    """The graph to run, and its input: the graph itself, as a node of a parent, or behind a parent's node."""
    log = folder / "log"
    parts = {"team": Paid(log), "evaluator": ScriptedEvaluator(log=log), "principles": ()}
    if form == "top level":
        return build_egg_graph(**parts, checkpointer=saver), {"reference": REFERENCE}
    egg = build_egg_graph(**parts)
    if form == "node":
        builder = StateGraph(Shared, context_schema=Context)
        builder.add_node("egg", egg)
        builder.add_node("ship", lambda state: {"shipped": state["kernel"]})
        given = {"reference": REFERENCE}
    else:

        def wrapper(state: Foreign) -> Foreign:
            result = egg.invoke({"reference": state["request"]}, context=CONTEXT)
            return {"answer": f"{result['verdict']}\n{result['kernel']}"}

        builder = StateGraph(Foreign)
        builder.add_node("egg", wrapper)
        builder.add_node("ship", lambda state: {"shipped": state["answer"]})
        given = {"request": REFERENCE}
    builder.add_edge(START, "egg")
    builder.add_edge("egg", "ship")
    return builder.compile(checkpointer=saver), given


def go(form: str, folder: Path) -> dict:
    """Start the run in this folder, or go on with it."""
    with closing(sqlite3.connect(folder / "checkpoints.sqlite", check_same_thread=False)) as connection:
        graph, given = build(form, folder, SqliteSaver(connection))
        begun = bool(graph.get_state(CONFIG).values)
        context = CONTEXT if form != "wrapper" else None
        state = graph.invoke(None if begun else given, CONFIG, context=context, durability="sync")
    kept = {key: state[key] for key in ("verdict", "kernel", "shipped", "answer", "status") if key in state}
    return {"state": kept, "attempts": [a.candidate.source for a in state.get("attempts", [])]}


def kill_after(writes: int) -> None:
    """Let this process die right after its n-th write to the checkpoints."""
    left = writes

    def counted(method):
        def write(self, *args, **kwargs):
            nonlocal left
            result = method(self, *args, **kwargs)
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return write

    SqliteSaver.put = counted(SqliteSaver.put)
    SqliteSaver.put_writes = counted(SqliteSaver.put_writes)


def killed_and_resumed(form: str, folder: Path, writes: int) -> dict:
    """One run that dies after `writes` writes, and its resumption by this process."""
    folder.mkdir(parents=True)
    child = os.fork()
    if child == 0:
        kill_after(writes)
        go(form, folder)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return {"writes": writes, "died": os.WIFSIGNALED(status), "status": status, **go(form, folder), **told(folder)}


def told(folder: Path) -> dict:
    return {"log": (folder / "log").read_text().splitlines()}


def main() -> None:
    base, form, first, step = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    whole = base / "whole"
    whole.mkdir()
    print(json.dumps({**go(form, whole), **told(whole)}), flush=True)
    writes, died = first, True
    while died:
        result = killed_and_resumed(form, base / str(writes), writes)
        died = result["died"]
        print(json.dumps(result), flush=True)
        writes += step


if __name__ == "__main__":
    main()

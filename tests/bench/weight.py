"""What the checkpoints of a run weigh, how long they take to read, and what the graph costs beside the evaluations.

Usage: python -m tests.bench.weight docs/results/weight.json

The attempts are those of `recorded.py`: as heavy as real ones, made in no time.
"""

import json
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver

from egg_graph import Context, build_egg_graph
from egg_graph.bench.provenance import current_provenance
from egg_graph.runs.checkpoints import FILE, make_checkpoints, open_checkpoints
from egg_graph.runs.files import write_whole
from egg_graph.schema import Environment, Value
from tests.bench.recorded import Evidence, RecordedEvaluator, RecordedTeam
from tests.graph.scripted import REFERENCE

MOST_BYTES = 3_000_000
"""Most that the checkpoints of a run of 24 attempts may weigh."""
HISTORY = 10
"""States of the history that are asked for, as LangGraph Studio does at first."""
CONFIG: Any = {"configurable": {"thread_id": "weight"}}


@dataclass(frozen=True)
class Kept:
    """A checkpointer, and how many bytes it holds."""

    saver: BaseCheckpointSaver[Any]
    weigh: Callable[[], int]


Keeper = Callable[[], AbstractContextManager[Kept]]


@contextmanager
def in_a_folder() -> Iterator[Kept]:
    """The checkpointer of `optimize`, as it stands in a run's folder."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        make_checkpoints(folder)
        with open_checkpoints(folder) as saver:
            yield Kept(saver, lambda: _weigh_database(saver.conn, folder / FILE))


@contextmanager
def in_sqlite() -> Iterator[Kept]:
    """LangGraph's own SQLite checkpointer, as it comes."""
    with TemporaryDirectory() as name:
        path = Path(name) / "checkpoints.sqlite"
        with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
            yield Kept(SqliteSaver(connection), lambda: _weigh_database(connection, path))


@contextmanager
def in_memory() -> Iterator[Kept]:
    """LangGraph's own checkpointer in memory, which a development server uses as well."""
    saver = InMemorySaver()
    yield Kept(saver, lambda: _weigh_bytes([saver.storage, saver.blobs, saver.writes]))


class Weight(Value):
    """One run, measured once."""

    kept: str
    """Where the checkpoints were kept: `in_a_folder`, `in_sqlite` or `in_memory`."""
    evidence: Evidence
    """What the evaluations hold: those of a judge without a GPU, or with one."""
    attempts: int
    bytes: int
    """All that the checkpointer held when the run had ended."""
    bytes_per_attempt: int
    checkpoints: int
    """One for each step, and one for the input."""
    run_seconds: float
    """Processor time of the whole run [s], as are the other durations: nothing in it waits for a GPU or a model."""
    first_event_ms: float
    """From the call to the first event on the `custom` channel [ms]."""
    state_ms: float
    """`get_state` when the run has ended [ms]."""
    history_ms: float
    """The last `HISTORY` states of `get_state_history` [ms]."""


def measure(keeper: Keeper, attempts: int, evidence: Evidence) -> Weight:
    """Run to the end with this many attempts, and weigh what was kept."""
    context = Context(
        target="h100", max_attempts=attempts, max_optimizations=(attempts + 3) // 4, max_seconds=1e9, max_tokens=0
    )
    with keeper() as kept:
        graph = build_egg_graph(
            team=RecordedTeam(attempts), evaluator=RecordedEvaluator(evidence), principles=(), checkpointer=kept.saver
        )
        start, first = time.process_time(), 0.0
        for _ in graph.stream(
            {"reference": REFERENCE}, CONFIG, context=context, stream_mode="custom", subgraphs=True, durability="sync"
        ):
            first = first or time.process_time() - start
        ran = time.process_time() - start
        state, asked = _timed(lambda: graph.get_state(CONFIG))
        _, listed = _timed(lambda: list(graph.get_state_history(CONFIG, limit=HISTORY)))
        assert len(state.values["attempts"]) == attempts, "the run was to use all its attempts"
        weight = kept.weigh()
    return Weight(
        kept=keeper.__name__,
        evidence=evidence,
        attempts=attempts,
        bytes=weight,
        bytes_per_attempt=weight // attempts,
        checkpoints=state.metadata["step"] + 2,
        run_seconds=round(ran, 2),
        first_event_ms=round(1e3 * first, 1),
        state_ms=round(1e3 * asked, 1),
        history_ms=round(1e3 * listed, 1),
    )


def _timed(call: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    return call(), time.process_time() - start


def _weigh_database(connection: sqlite3.Connection, path: Path) -> int:
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path.stat().st_size


def _weigh_bytes(held: Any) -> int:
    """Add up all byte strings in nested containers."""
    if isinstance(held, bytes):
        return len(held)
    if isinstance(held, dict):
        held = list(held.values())
    return sum(map(_weigh_bytes, held)) if isinstance(held, list | tuple) else 0


PLAN: tuple[tuple[Keeper, int, Evidence], ...] = (
    *((keeper, 24, "no gpu") for keeper in (in_a_folder, in_sqlite, in_memory)),
    *((keeper, 24, "gpu") for keeper in (in_a_folder, in_sqlite, in_memory)),
    *((keeper, 120, "gpu") for keeper in (in_a_folder, in_sqlite, in_memory)),
    (in_a_folder, 1000, "gpu"),
)
"""What `main` measures. A GPU's evaluations are the heavier ones; 1000 attempts are the most that a run may make."""


def main(out: Path) -> None:
    """Measure every kind of checkpointer, and write the results file."""
    measure(in_memory, 24, "no gpu")  # the first run also imports and fills caches
    provenance = current_provenance(_machine())
    rows = []
    for keeper, attempts, evidence in PLAN:
        rows.append(measure(keeper, attempts, evidence))
        print(rows[-1].model_dump_json(), flush=True)
    data = {**provenance.model_dump(mode="json"), "rows": [row.model_dump(mode="json") for row in rows]}
    write_whole(out, json.dumps(data, indent=2) + "\n")


def _machine() -> Environment:
    from egg_graph.evaluator import environment

    return environment()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Many runs at once on one `langgraph dev` with real evaluators on one GPU, the server killed in the middle.

Every run must end as its own: no attempt lost or made twice, none of another run, no answer of an evaluator paid twice.
"""

import datetime
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from langgraph_sdk import get_sync_client
from langgraph_sdk.client import SyncLangGraphClient

from egg_graph.bench.provenance import Provenance, current_provenance
from egg_graph.bench.writing import markdown_table, write_results
from egg_graph.context import Device
from egg_graph.evaluator import LocalEvaluator
from egg_graph.schema import Attempt, BadInput, Evaluation, InfrastructureError, KernelTask, Value
from tests.lab.cancel import PATIENCE, job_of
from tests.lab.dev_server import free_port, serving, wait_until
from tests.lab.processes import Process, descendants
from tests.lab.served_runs import CALLS, DIE, STOP
from tests.paths import CORPUS

SMALL = ("softmax", "layer_norm", "rms_norm", "silu", "log_softmax", "gelu", "row_mean", "matmul_relu_bias")
REFERENCES = tuple(CORPUS / "problems" / f"{name}.py" for name in SMALL)
"""References whose kernels are judged in seconds."""
LEAST_ANSWERS = 4
"""Answers of the evaluators that a run asks for at least: a baseline, two attempts and a finalist."""
LOOK = 0.2
"""Seconds between two counts of the candidates at work."""
HISTORY = 1000
"""Most states of a thread's history that are read."""
FIRST = """# {name}
import torch


class ModelNew(torch.nn.Module):
    def forward(self, *inputs):
        raise RuntimeError("not written yet")
"""
"""The kernel that every run is given to start from: its first attempt fails, and is mended."""
GRAPH = """
from pathlib import Path

from tests.lab.served_runs import make_graph

graph = make_graph(Path(__file__).parent, {device!r})
"""


class Call(Value):
    """One line of the log of the evaluators' calls."""

    event: str
    """`begin`, then `end` or, where it raised, `failed`; a call that was cut off has neither.

    `held` before `begin` for a call that came when the server was about to be killed.
    """
    task: str
    """`KernelTask.digest`"""
    name: str
    """Name of the task, and so of the run."""
    kind: str
    """`baseline`, `attempt`, `finalist` or `screen`."""
    candidate: str

    @property
    def asked(self) -> tuple[str, str, str]:
        """What two calls have in common that ask for the same answer."""
        return self.task, self.kind, self.candidate


class ServedRun(Value):
    """One run, as the server shows it at the end."""

    name: str
    reference: str
    """Name of the reference's file."""
    status: str
    """How the run ended; empty if it did not."""
    attempts: int
    ratio: float | None
    """Speedup of its kernel; None where it was not timed."""
    seconds: float
    """From its start to its end, the time without a server included."""


class ServerResults(Value):
    """Runs at once on one server that was killed once."""

    terms: Provenance
    knobs: dict[str, Any]
    runs: tuple[ServedRun, ...]
    answers: int
    """Calls of the evaluators that came to their end."""
    answers_before: int
    """Those of them before the server was killed."""
    cut_off: int
    """Calls that were at work when it was killed."""
    paid_twice: int
    """Calls for an answer that had been given already."""
    most_candidates: int
    """Most candidates seen at work at once, comparing or timed."""
    left: int
    """Processes of the killed server that were still alive when the patience was over."""
    cleared_seconds: float
    """From the kill until none of its processes was alive."""
    killed_seconds: float
    """From the start of the server until the kill."""
    seconds: float
    """From the start of the server until the last run's end."""
    complaints: tuple[str, ...] = ()


class Row:
    """The runs of one measurement: their names, references and threads.

    Args:
        references: files of the references, taken in turn.
        runs: number of runs.
        knobs: the knobs of every run.
    """

    def __init__(self, references: Sequence[Path], runs: int, knobs: Mapping[str, Any]) -> None:
        chosen = [references[number % len(references)] for number in range(runs)]
        self.references = {f"{path.stem}_{number}": path for number, path in enumerate(chosen)}
        self.sources = {name: path.read_text(encoding="utf-8") for name, path in self.references.items()}
        self.knobs = dict(knobs)
        self.threads: dict[str, str] = {}

    def start(self, client: SyncLangGraphClient) -> None:
        """Start every run, each on a thread of its own."""
        for name, source in self.sources.items():
            self.threads[name] = client.threads.create()["thread_id"]
            given = {"reference": source, "name": name, "kernel": FIRST.format(name=name)}
            client.runs.create(self.threads[name], "egg", input=given, context=self.knobs)


def run_server_runs(
    references: Sequence[Path],
    out: Path | None = None,
    *,
    runs: int = 8,
    attempts: int = 2,
    configs: int = 0,
    device: Device = "auto",
    max_seconds: float = 400.0,
) -> ServerResults:
    """Serve the runs, kill the server when half of the evaluators' answers are there, serve on, and look for faults.

    Args:
        references: files of the references.
        out: results file.
        runs: number of runs at once.
        attempts: most attempts of each run.
        configs: most configurations of each sweep; 0 for no sweeps.
        device: where to judge.
        max_seconds: most that the whole may take.

    Raises:
        BadInput: if there are fewer than two references.
        InfrastructureError: if the server does not come up, dies by itself, or the runs do not end in time.
    """
    if len(references) < 2:
        raise BadInput("server_runs: name two references or more; runs of one cannot be told apart")
    with LocalEvaluator(device=device) as local:
        terms = current_provenance(local.environment())
    knobs = {"device": device, "max_attempts": attempts, "max_configs": configs, "tune": configs > 0, "profile": False}
    row = Row(references, runs, knobs)
    with TemporaryDirectory(prefix="egg-server-") as name:
        results = _serve_twice(Path(name), row, terms, device, time.monotonic() + max_seconds)
    if out is not None:
        write_results(out, results, server_page(results))
    return results


class End(Value):
    """What the server shows of one run at the end."""

    values: dict[str, Any]
    """The last state."""
    history: list[list[dict[str, Any]]]
    """The attempts in every state of the thread, the oldest first."""
    seconds: float
    """From the run's start to its end, the time without a server included."""


def _serve_twice(folder: Path, row: Row, terms: Provenance, device: Device, deadline: float) -> ServerResults:
    (folder / "served.py").write_text(GRAPH.format(device=device))
    config = {"dependencies": ["."], "graphs": {"egg": "./served.py:graph"}}
    (folder / "langgraph.json").write_text(json.dumps(config))
    (folder / CALLS).touch()
    started = time.monotonic()
    there, first = _serve_until_killed(folder, row, deadline)
    killed = time.monotonic()
    left, cleared = _clear(there)
    before = read_calls(folder)
    (folder / DIE).unlink()
    (folder / STOP).unlink()
    ends, second = _serve_to_the_end(folder, row, deadline)
    seconds = time.monotonic() - started
    calls = read_calls(folder)
    return ServerResults(
        terms=terms,
        knobs=row.knobs,
        runs=tuple(_served_run(row, name, ends[name]) for name in row.threads),
        answers=len(ended(calls)),
        answers_before=len(ended(before)),
        cut_off=sum(cut_off(before).values()),
        paid_twice=paid_twice(calls),
        most_candidates=max(first, second),
        left=left,
        cleared_seconds=cleared,
        killed_seconds=killed - started,
        seconds=seconds,
        complaints=tuple(complaints(row.sources, ends, calls, left)),
    )


def _serve_until_killed(folder: Path, row: Row, deadline: float) -> tuple[tuple[Process, ...], int]:
    """Start the runs; when half of the answers are there and a call is at work, let the server die.

    Returns:
        The processes that it had, and the most candidates seen at work.
    """
    port, runs = free_port(), len(row.references)
    enough = runs * LEAST_ANSWERS // 2
    with serving(folder, port, runs) as server, counting(server.pid) as most:
        client = get_sync_client(url=f"http://127.0.0.1:{port}")
        row.start(client)

        def halfway() -> bool:
            if _halfway(read_calls(folder), enough):
                return True
            _expect_a_run_at_work(client, row.threads)
            return False

        wait_until(halfway, server, folder, deadline - time.monotonic())
        (folder / STOP).touch()
        wait_until(lambda: _all_wait(client, folder), server, folder, deadline - time.monotonic())
        there = descendants(server.pid)
        (folder / DIE).touch()
        server.wait(timeout=PATIENCE)
    return there, max(most)


def _expect_a_run_at_work(client: SyncLangGraphClient, threads: Mapping[str, str]) -> None:
    """Go on while a run is at work.

    Raises:
        InfrastructureError: if all runs have ended before they were half done; the message says how.
    """
    found = {name: client.threads.get(thread) for name, thread in threads.items()}
    if any(thread["status"] == "busy" for thread in found.values()):
        return
    told = "; ".join(f"{name}: {thread['status']} {thread.get('error') or ''}" for name, thread in found.items())
    raise InfrastructureError(f"all runs ended before they were half done: {told}"[:2000])


def _all_wait(client: SyncLangGraphClient, folder: Path) -> bool:
    """Whether every run at work waits for its evaluator, and so has gone on from all the answers that were given."""
    busy = client.threads.search(status="busy", limit=HISTORY)
    return len(waiting(read_calls(folder))) >= len(busy)


def _halfway(calls: Sequence[Call], enough: int) -> bool:
    """Whether there are enough answers, and a call is at work."""
    return len(ended(calls)) >= enough and bool(cut_off(calls))


def _serve_to_the_end(folder: Path, row: Row, deadline: float) -> tuple[dict[str, End], int]:
    """Serve until no run is at work; the end of each, and the most candidates seen at work."""
    port = free_port()
    client = get_sync_client(url=f"http://127.0.0.1:{port}")
    with serving(folder, port, len(row.references)) as server, counting(server.pid) as most:
        wait_until(
            lambda: not client.threads.search(status="busy", limit=1), server, folder, deadline - time.monotonic()
        )
        return {name: _end(client, thread) for name, thread in row.threads.items()}, max(most)


def _end(client: SyncLangGraphClient, thread: str) -> End:
    values: Any = client.threads.get_state(thread)["values"]
    states: Any = client.threads.get_history(thread, limit=HISTORY)
    (run,) = client.runs.list(thread)
    started, done = (datetime.datetime.fromisoformat(str(run[when])) for when in ("created_at", "updated_at"))
    return End(
        values=values,
        history=[state["values"].get("attempts") or [] for state in reversed(states)],
        seconds=(done - started).total_seconds(),
    )


@contextmanager
def counting(server: int) -> Iterator[list[int]]:
    """Count the candidates at work below a server, again and again; the list gathers what was seen."""
    counts, stop = [0], threading.Event()

    def look() -> None:
        while not stop.wait(LOOK):
            counts.append(len({job_of(process) for process in descendants(server)} - {""}))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield counts
    finally:
        stop.set()
        thread.join()


def _clear(there: Sequence[Process]) -> tuple[int, float]:
    """Wait until the processes have ended: how many have not, and the seconds waited."""
    started = time.monotonic()
    while any(process.alive for process in there) and time.monotonic() - started < PATIENCE:
        time.sleep(LOOK / 4)
    return sum(process.alive for process in there), time.monotonic() - started


def _served_run(row: Row, name: str, end: End) -> ServedRun:
    timing = (end.values.get("evaluation") or {}).get("timing") or {}
    return ServedRun(
        name=name,
        reference=row.references[name].name,
        status=end.values.get("status", ""),
        attempts=len(end.values.get("attempts") or []),
        ratio=timing.get("ratio"),
        seconds=end.seconds,
    )


def read_calls(folder: Path) -> list[Call]:
    """The log of the evaluators' calls."""
    lines = (folder / CALLS).read_text(encoding="utf-8").splitlines()
    return [Call.model_validate_json(line) for line in lines]


def ended(calls: Sequence[Call]) -> list[Call]:
    """The ends of the calls that came to one."""
    return [call for call in calls if call.event == "end"]


def cut_off(calls: Sequence[Call]) -> "Counter[tuple[str, str, str]]":
    """What was asked, and was still at work."""
    begun = Counter(call.asked for call in calls if call.event == "begin")
    return begun - Counter(call.asked for call in calls if call.event in ("end", "failed"))


def waiting(calls: Sequence[Call]) -> set[str]:
    """Names of the runs whose evaluator is at work or held back."""
    at_work = cut_off(calls)
    return {call.name for call in calls if call.event == "held" or at_work[call.asked] > 0}


def paid_twice(calls: Sequence[Call]) -> int:
    """Calls that began after the same question had been answered."""
    answered: set[tuple[str, str, str]] = set()
    again = 0
    for call in calls:
        if call.event == "end":
            answered.add(call.asked)
        elif call.event == "begin":
            again += call.asked in answered
    return again


def complaints(
    sources: Mapping[str, str], ends: Mapping[str, End], calls: Sequence[Call], left: int = 0
) -> Iterator[str]:
    """What is wrong with the runs, one line each.

    Args:
        sources: the reference that each run was given, by the run's name.
        ends: the end of each run.
        calls: the log of the evaluators' calls.
        left: processes of the killed server that did not end.
    """
    if left:
        yield f"{left} processes of the killed server are left"
    if again := paid_twice(calls):
        yield f"{again} answers of the evaluators were paid twice"
    for name, source in sources.items():
        values, history = ends[name].values, ends[name].history
        if not values.get("verdict"):
            yield f"{name}: it did not end"
            continue
        answered = [call for call in ended(calls) if call.name == name]
        faults = [*_crossed(source, values, answered), *_lost(values, answered), *_forgotten(history)]
        yield from (f"{name}: {fault}" for fault in faults)


def _crossed(source: str, values: Mapping[str, Any], answered: Sequence[Call]) -> Iterator[str]:
    """What of another run stands in this one's state."""
    task = KernelTask.model_validate(values["task"])
    if task.reference != source:
        yield "its task holds another reference"
    if {call.task for call in answered} != {task.digest}:
        yield "its evaluators were asked about another task"
    judged = [attempt.evaluation for attempt in _attempts(values)]
    if values.get("evaluation"):
        judged.append(Evaluation.model_validate(values["evaluation"]))
    if any(evaluation.task != task.digest for evaluation in judged):
        yield "it holds an evaluation of another task"
    if values.get("kernel") and values["kernel"] != (values.get("best") or {}).get("source"):
        yield "its kernel is not its best candidate's"


def _lost(values: Mapping[str, Any], answered: Sequence[Call]) -> Iterator[str]:
    """Which attempts are missing, foreign or there twice."""
    attempts = _attempts(values)
    if [attempt.number for attempt in attempts] != list(range(1, len(attempts) + 1)):
        yield f"its attempts are numbered {[attempt.number for attempt in attempts]}"
    judged = Counter(call.candidate for call in answered if call.kind == "attempt")
    kept = Counter(attempt.candidate.id for attempt in attempts)
    if judged != kept:
        yield f"the candidates judged, {dict(judged)}, are not those of its attempts, {dict(kept)}"


def _forgotten(history: Sequence[Sequence[Mapping[str, Any]]]) -> Iterator[str]:
    """Which state of the history lacks an attempt that an earlier one has."""
    for earlier, later in pairwise(history):
        if list(later[: len(earlier)]) != list(earlier):
            yield f"a state of its history has {len(later)} attempts, and not the {len(earlier)} of the one before"


def _attempts(values: Mapping[str, Any]) -> list[Attempt]:
    return [Attempt.model_validate(attempt) for attempt in values.get("attempts") or []]


def server_page(results: ServerResults) -> str:
    """The runs as a Markdown page."""
    knobs = ", ".join(f"{name} {value}" for name, value in results.knobs.items())
    head = (
        f"{results.terms.line} Knobs: {knobs}. One judge for each run; they take turns on the GPU by its lease.",
        "",
        f"Killed after {results.killed_seconds:.0f} s, with {results.answers_before} answers of the evaluators given "
        f"and {results.cut_off} calls at work; {results.cleared_seconds:.1f} s later none of its processes was alive. "
        f"All ended {results.seconds:.0f} s after the start, with {results.answers} answers, {results.paid_twice} of "
        f"them paid twice. At most {results.most_candidates} candidates were at work at once.",
        "",
        "Complaints: " + ("; ".join(results.complaints) or "none") + ".",
        "",
    )
    rows = [
        (
            *(one.name, one.reference, one.status, str(one.attempts)),
            "-" if one.ratio is None else f"{one.ratio:.3f}",
            f"{one.seconds:.0f}",
        )
        for one in results.runs
    ]
    table = markdown_table(("run", "reference", "status", "attempts", "ratio", "s"), rows)
    return "\n".join([f"# {len(results.runs)} runs at once on one server", "", *head, *table]) + "\n"

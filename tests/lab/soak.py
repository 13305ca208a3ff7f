"""Endurance: evaluate a long row of kernels with faults mixed in, then look for what the evaluator leaves behind."""

import math
import os
import random
import shutil
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from egg_graph.bench.provenance import Provenance, current_provenance
from egg_graph.bench.trust.corpus import assign_gpu, candidate_of, task_of
from egg_graph.bench.trust.headers import Entry, read_entries
from egg_graph.bench.writing import markdown_table, write_results
from egg_graph.context import Device
from egg_graph.evaluator import LocalEvaluator, environment
from egg_graph.evaluator.device.gpus import visible_gpus
from egg_graph.schema import USABLE, BadInput, Hardware, InfrastructureError, Value
from egg_graph.target import choose_target
from tests.lab.processes import Process, all_processes, descendants, judges

GROWN_BYTES = 64 << 20
"""Growth of the evaluator's resident memory from the second quarter to the last, above which it is a complaint."""
GROWN_DESCRIPTORS = 8
"""The same for open descriptors."""
GROWN_GPU_BYTES = 64 << 20
"""The same for memory in use on the GPUs, from before to after the row."""
FEWEST_TURNS = 5
"""Fewest evaluations in a quarter of the row; with fewer, growth cannot be told from the start-up."""
SETTLED = 10.0
"""Age after which a process counts as one that stays [s]; a candidate's is gone by then, or belongs to a fault."""


class Turn(Value):
    """One evaluation of the row."""

    id: str
    fault: bool
    """Whether the candidate was faulty."""
    status: str
    outcome: str
    """Outcome as in a corpus run."""
    seconds: float
    resident_bytes: int
    """Resident memory of our processes that stay (judges, fork servers), after the evaluation."""
    descriptors: int
    """Open descriptors of the same processes."""
    processes: int
    """Number of all our processes."""
    judges: tuple[int, ...]
    """Process ids of the judges; a new id means that a judge was lost and started anew."""


class SoakResults(Value):
    """A row of evaluations, and what was left after it."""

    terms: Provenance
    ladder: str
    count: int
    seed: int
    workers: int = 1
    """Evaluators side by side, each with a row of its own."""
    turns: tuple[Turn, ...] = ()
    processes_left: tuple[str, ...] | None = None
    """Command lines of our processes that outlived the evaluator; None before the end of the row."""
    files_left: tuple[str, ...] | None = None
    """Files and shared memory that outlived the evaluator; None before the end of the row."""
    gpu_bytes_before: int | None = None
    """Memory in use on all visible GPUs, by any process; None where the driver does not tell."""
    gpu_bytes_after: int | None = None

    @property
    def faults(self) -> int:
        """Number of evaluations of faulty candidates."""
        return sum(turn.fault for turn in self.turns)

    @property
    def good(self) -> tuple[Turn, ...]:
        """Evaluations of right kernels."""
        return tuple(turn for turn in self.turns if not turn.fault)

    @property
    def disturbed(self) -> tuple[Turn, ...]:
        """Right kernels that were not found right, because a fault before them disturbed them."""
        return tuple(turn for turn in self.good if turn.status not in USABLE)

    @property
    def judges(self) -> int:
        """Number of judge processes used; one for each evaluator if none was lost."""
        return len({judge for turn in self.turns for judge in turn.judges})

    @property
    def growth(self) -> tuple[int, int]:
        """Bytes and descriptors an evaluator holds more in the last quarter than in the second, as medians."""
        quarter = len(self.turns) // 4
        if quarter < FEWEST_TURNS:
            return 0, 0
        second, last = self.turns[quarter : 2 * quarter], self.turns[-quarter:]
        return (
            int(median(map(_bytes_each, last)) - median(map(_bytes_each, second))),
            int(median(map(_descriptors_each, last)) - median(map(_descriptors_each, second))),
        )

    @property
    def complaints(self) -> tuple[str, ...]:
        """What went wrong, one line each; empty if nothing did."""
        grown_bytes, grown_descriptors = self.growth
        lines = [f"right kernel {turn.id}: {turn.status}" for turn in self.disturbed]
        lines += [f"fault {turn.id} was accepted" for turn in self.turns if turn.outcome == "missed"]
        lines += [f"process left: {command}" for command in self.processes_left or ()]
        lines += [f"file left: {name}" for name in self.files_left or ()]
        if grown_bytes > GROWN_BYTES:
            lines.append(f"resident memory grew by {grown_bytes >> 20} MiB")
        if grown_descriptors > GROWN_DESCRIPTORS:
            lines.append(f"{grown_descriptors} more descriptors open")
        before, after = self.gpu_bytes_before, self.gpu_bytes_after
        if before is not None and after is not None and after - before > GROWN_GPU_BYTES:
            lines.append(f"{(after - before) >> 20} MiB more of the GPU's memory in use")
        return tuple(lines)


def _bytes_each(turn: Turn) -> float:
    return turn.resident_bytes / max(1, len(turn.judges))


def _descriptors_each(turn: Turn) -> float:
    return turn.descriptors / max(1, len(turn.judges))


def run_soak(
    folders: Sequence[Path],
    out: Path | None = None,
    *,
    count: int = 200,
    faults: bool = True,
    device: Device = "auto",
    problems: Path | None = None,
    timeout: float = 20.0,
    seed: int = 1,
    workers: int = 1,
    max_problems: int = 8,
    max_seconds: float = math.inf,
    on_turn: Callable[[Turn], None] | None = None,
) -> SoakResults:
    """Evaluate `count` kernels of some corpora, one after another, then look for what was left.

    The mixture is fixed by the seed. After each faulty candidate comes a right one, which must be found right.

    Args:
        folders: corpora with right kernels and faulty ones.
        out: results file, rewritten every 20 evaluations.
        count: evaluations in all.
        faults: mix faults in; without them only right kernels are evaluated.
        device: where to judge.
        problems: folder of references; None finds it beside a corpus.
        timeout: seconds that one run of a candidate may take; an endless loop costs as much.
        seed: seed of the mixture.
        workers: evaluators side by side, assigned in turns to the machine's GPUs; each takes its part of `count`.
        max_problems: problems in the mixture, those with most faulty candidates first: each costs memory while it is
            known.
        max_seconds: no evaluation begins later than that; the row may end before `count`.
        on_turn: called after each evaluation.

    Raises:
        BadInput: if the corpora hold no right kernel for this ladder.
    """
    entries = read_entries(folders, problems)
    with _private_temporary_folder() as home:
        gpu_before, shared_before, others = gpu_bytes(), _shared_memory(), set(descendants())
        provenance = current_provenance(environment(use_gpu=device != "none"))
        gpu = provenance.environment is not None and provenance.environment.gpu is not None and device != "none"
        ladder = "gpu" if gpu else "cpu"
        collector = _Collector(
            SoakResults(terms=provenance, ladder=ladder, count=count, seed=seed, workers=workers), out, on_turn
        )
        here = [entry for entry in entries if ladder in entry.header.where]
        hardware = choose_target("auto")
        deadline = time.monotonic() + max_seconds

        def evaluate_row(number: int) -> None:
            """Evaluate one evaluator's part of the row."""
            part = count // workers + (number < count % workers)
            with LocalEvaluator(device=device, timeout=timeout, gpu=assign_gpu(number, device)) as local:
                for entry in mixture(here, part, faults, random.Random(seed + number), max_problems):
                    if time.monotonic() > deadline:
                        break
                    collector.add(_evaluate(local, entry, hardware, collector.seen))

        with ThreadPoolExecutor(workers) as threads:
            list(threads.map(evaluate_row, range(workers)))
        time.sleep(2.0)  # the kernel and the driver need a moment to remove ended processes
        results = collector.results.model_copy(
            update={
                "processes_left": _processes_left(home, collector.seen, others),
                "files_left": _files_left(home, collector.seen, shared_before),
                "gpu_bytes_before": gpu_before,
                "gpu_bytes_after": gpu_bytes(),
            }
        )
    if out is not None:
        write_results(out, results, soak_page(results), complaints=results.complaints)
    return results


class _Collector:
    """Gathers the evaluations, and rewrites the results after every 20. Safe from several threads."""

    def __init__(self, results: SoakResults, out: Path | None, on_turn: Callable[[Turn], None] | None) -> None:
        self.results, self.out, self.on_turn = results, out, on_turn
        self.seen: set[Process] = set()
        """Every process of ours that was seen."""
        self.lock = threading.Lock()

    def add(self, turn: Turn) -> None:
        """Add one evaluation."""
        with self.lock:
            self.results = self.results.model_copy(update={"turns": (*self.results.turns, turn)})
            if self.on_turn is not None:
                self.on_turn(turn)
            if self.out is not None and len(self.results.turns) % 20 == 0:
                write_results(self.out, self.results, soak_page(self.results), complaints=self.results.complaints)


@contextmanager
def _private_temporary_folder() -> Iterator[Path]:
    """Make everything temporary land in a folder of its own, where it can be counted; remove the folder at the end."""
    home = Path(tempfile.mkdtemp(prefix="egg-soak-"))
    before, variable = tempfile.tempdir, os.environ.get("TMPDIR")
    tempfile.tempdir = os.environ["TMPDIR"] = str(home)
    try:
        yield home
    finally:
        tempfile.tempdir = before
        if variable is None:
            os.environ.pop("TMPDIR")
        else:
            os.environ["TMPDIR"] = variable
        shutil.rmtree(home, ignore_errors=True)


def _processes_left(home: Path, seen: set[Process], others: set[Process]) -> tuple[str, ...]:
    """Command lines of our processes that still run, but for this one and `others`."""
    ours = {*seen, *(process for process in all_processes() if process.holds(str(home)))} - others
    left = [process for process in ours if process.alive]
    return tuple(process.command for process in left if process.pid != os.getpid())


def _files_left(home: Path, seen: set[Process], shared_before: set[str]) -> tuple[str, ...]:
    """Files in the temporary folder, and new shared memory that carries one of our process ids or our name."""
    files = [str(path.relative_to(home)) for path in sorted(home.rglob("*"))]
    ours = [str(process.pid) for process in seen] + ["egg"]
    shared = [name for name in _shared_memory() - shared_before if any(mark in name for mark in ours)]
    return (*files, *sorted(shared))


def soak_page(results: SoakResults) -> str:
    """A soak as a Markdown page."""
    grown_bytes, grown_descriptors = results.growth
    seconds = [turn.seconds for turn in results.turns]
    left, files = results.processes_left, results.files_left
    rows = [
        ("evaluations", f"{len(results.turns)} of {results.count}, {results.faults} of them of faulty candidates"),
        ("right kernels found right", f"{len(results.good) - len(results.disturbed)} of {len(results.good)}"),
        ("evaluators side by side, each with a row of its own", f"{results.workers}"),
        ("judge processes used", f"{results.judges}"),
        ("seconds an evaluation, median and longest", f"{median(seconds):.1f}, {max(seconds):.1f}" if seconds else "-"),
        ("processes left", "not looked yet" if left is None else str(len(left))),
        ("files left", "not looked yet" if files is None else str(len(files))),
        ("growth of resident memory", f"{grown_bytes / 2**20:+.0f} MiB an evaluator, second quarter to last, medians"),
        ("growth of open descriptors", f"{grown_descriptors:+d}"),
        ("GPU memory in use before and after", _gpu_memory(results)),
    ]
    complaints = [f"- {complaint}" for complaint in results.complaints] or ["Nothing to complain of."]
    by_fault = Counter((turn.id, turn.status) for turn in results.turns if turn.fault)
    faults = [(name, status, str(times)) for (name, status), times in sorted(by_fault.items())]
    lines = ["# soak", "", results.terms.line, "", *markdown_table(("what", "found"), rows), "", *complaints, ""]
    lines += markdown_table(("fault", "verdict", "times"), faults) if faults else []
    return "\n".join(lines).rstrip() + "\n"


def gpu_bytes() -> int | None:
    """Memory in use on all visible GPUs, by any process [byte]; None where the driver does not tell."""
    visible = visible_gpus()
    if not visible:
        return None
    command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", f"--id={','.join(visible)}"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout
        return sum(int(word) for word in answer.split()) << 20
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None


def mixture(entries: Sequence[Entry], count: int, faults: bool, draw: random.Random, max_problems: int) -> list[Entry]:
    """Draw a row of entries; a right kernel comes after each faulty one.

    Raises:
        BadInput: if there is no right kernel among the entries.
    """
    right = [entry for entry in entries if entry.header.honest]
    faulty = [entry for entry in entries if not entry.header.honest]
    if not right:
        raise BadInput("soak: the corpora hold no right kernel for this ladder; name a folder that does")
    known = [entry.header.problem for entry in faulty]
    names = sorted({entry.header.problem for entry in right}, key=lambda name: (-known.count(name), name))
    chosen = set(names[:max_problems])
    right = [entry for entry in right if entry.header.problem in chosen]
    faulty = [entry for entry in faulty if entry.header.problem in chosen] if faults else []
    row: list[Entry] = []
    while len(row) < count:
        if faulty and draw.random() < 0.5:
            row.append(draw.choice(faulty))
        row.append(draw.choice(right))
    return row[:count]


def _evaluate(local: LocalEvaluator, entry: Entry, hardware: Hardware, seen: set[Process]) -> Turn:
    begun = time.monotonic()
    try:
        evaluation = local.evaluate(task_of(entry, hardware), candidate_of(entry))
        status, outcome = str(evaluation.status), str(entry.header.outcome(evaluation))
    except InfrastructureError as error:
        status, outcome = f"infra_error: {' '.join(str(error).split())[:200]}", "not_judged"
    seconds = time.monotonic() - begun
    judge = judges()
    ours = [*judge, *(process for one in judge for process in descendants(one.pid))]
    seen.update(ours)
    settled = [process for process in ours if process.age_seconds > SETTLED]
    return Turn(
        id=entry.header.id,
        fault=not entry.header.honest,
        status=status,
        outcome=outcome,
        seconds=seconds,
        resident_bytes=sum(process.resident_bytes for process in settled),
        descriptors=sum(process.descriptors for process in settled),
        processes=len(ours),
        judges=tuple(process.pid for process in judge),
    )


def _shared_memory() -> set[str]:
    """Names of the machine's shared memory."""
    try:
        return set(os.listdir("/dev/shm"))
    except OSError:
        return set()


def _gpu_memory(results: SoakResults) -> str:
    if results.gpu_bytes_before is None or results.gpu_bytes_after is None:
        return "not measured: no nvidia-smi"
    return f"{results.gpu_bytes_before >> 20} MiB, {results.gpu_bytes_after >> 20} MiB"

"""Endurance: a long row of evaluations with faults mixed in, and what the evaluator leaves behind."""

import math
import os
import random
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Literal

from egg_graph.bench.trust.corpus import candidate_of, task_of
from egg_graph.bench.trust.dealing import gpu_of
from egg_graph.bench.trust.headers import Entry, read_entries
from egg_graph.bench.trust.processes import Process, descendants, everybody, judges
from egg_graph.bench.trust.terms import Terms, terms_now
from egg_graph.bench.trust.writing import table, write_results
from egg_graph.evaluator import LocalEvaluator, environment
from egg_graph.evaluator.device.gpus import visible_gpus
from egg_graph.schema import USABLE, BadInput, Hardware, InfrastructureError, Value
from egg_graph.target import choose_target

GROWN_BYTES = 64 << 20
"""Growth of the evaluator's resident memory, from the second quarter to the last, that is called growth."""
GROWN_DESCRIPTORS = 8
GROWN_GPU_BYTES = 64 << 20
FEWEST_TURNS = 5
"""Evaluations in a quarter of the row, below which growth cannot be told from the start."""
SETTLED = 10.0
"""Seconds after which a process is one that stays; a candidate's is gone by then, or belongs to a fault."""


class Turn(Value):
    """One evaluation of the row."""

    id: str
    fault: bool
    """Whether it was a faulty candidate."""
    status: str
    outcome: str
    """As in a corpus run."""
    seconds: float
    resident_bytes: int
    """Of our processes that are there for longer (judges, fork servers), after the evaluation."""
    descriptors: int
    """Of the same."""
    processes: int
    """Of all."""
    judges: tuple[int, ...]
    """Numbers of the judge processes; a new one means that one was lost and started anew."""


class SoakResults(Value):
    """A row of evaluations, and what was left after it."""

    terms: Terms
    ladder: str
    count: int
    seed: int
    workers: int = 1
    """Evaluators side by side, each with a row of its own."""
    turns: tuple[Turn, ...] = ()
    processes_left: tuple[str, ...] | None = None
    """Command lines of processes of ours that outlived the evaluator; None until it was looked."""
    files_left: tuple[str, ...] | None = None
    gpu_bytes_before: int | None = None
    """In use on the GPU, by whomever; None where nothing tells."""
    gpu_bytes_after: int | None = None

    @property
    def faults(self) -> int:
        return sum(turn.fault for turn in self.turns)

    @property
    def good(self) -> tuple[Turn, ...]:
        """Evaluations of right kernels."""
        return tuple(turn for turn in self.turns if not turn.fault)

    @property
    def disturbed(self) -> tuple[Turn, ...]:
        """Right kernels that were not found right: a fault before them had disturbed them."""
        return tuple(turn for turn in self.good if turn.status not in USABLE)

    @property
    def judges(self) -> int:
        """How many judge processes it took; one for each evaluator if none was lost."""
        return len({judge for turn in self.turns for judge in turn.judges})

    @property
    def growth(self) -> tuple[int, int]:
        """Bytes and descriptors that an evaluator holds more in the last quarter than in the second, by median."""
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
        """What a robust evaluator would not have done; empty if all is well."""
        grown_bytes, grown_descriptors = self.growth
        said = [f"right kernel {turn.id}: {turn.status}" for turn in self.disturbed]
        said += [f"fault {turn.id} was accepted" for turn in self.turns if turn.outcome == "missed"]
        said += [f"process left: {command}" for command in self.processes_left or ()]
        said += [f"file left: {name}" for name in self.files_left or ()]
        if grown_bytes > GROWN_BYTES:
            said.append(f"resident memory grew by {grown_bytes >> 20} MiB")
        if grown_descriptors > GROWN_DESCRIPTORS:
            said.append(f"{grown_descriptors} more descriptors open")
        before, after = self.gpu_bytes_before, self.gpu_bytes_after
        if before is not None and after is not None and after - before > GROWN_GPU_BYTES:
            said.append(f"{(after - before) >> 20} MiB more of the GPU's memory in use")
        return tuple(said)


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
    device: Literal["auto", "gpu", "none"] = "auto",
    problems: Path | None = None,
    timeout: float = 20.0,
    seed: int = 1,
    workers: int = 1,
    most_problems: int = 8,
    most_seconds: float = math.inf,
    on_turn: Callable[[Turn], None] | None = None,
) -> SoakResults:
    """Evaluate `count` kernels of some corpora, one after another, then look for what was left.

    The mixture is fixed by the seed. After each faulty candidate comes a right one, which must be found right.

    Args:
        folders: corpora with right kernels and faulty ones.
        out: results file, rewritten every 20 evaluations.
        count: evaluations in all.
        faults: mix faults in; without them right kernels alone are evaluated.
        device: ladder to evaluation.
        problems: folder of references; None finds it beside a corpus.
        timeout: seconds that one run of a candidate may take; an endless loop costs as much.
        seed: of the mixture.
        workers: evaluators side by side, dealt to the machine's GPUs; each takes its part of `count` in a row.
        most_problems: problems in the mixture, those with most faulty candidates first: each costs memory while it is
            known.
        most_seconds: no evaluation begins later than that; the row may end before `count`.
        on_turn: called after each evaluation.

    Raises:
        BadInput: if the corpora hold no right kernel for this ladder.
    """
    results = SoakResults(terms=terms_now(), ladder="", count=count, seed=seed, workers=workers)
    entries = read_entries(folders, problems)
    home = Path(tempfile.mkdtemp(prefix="egg-soak-"))  # all that the evaluator makes lands in it, and can be counted
    old_home, tempfile.tempdir = tempfile.tempdir, str(home)
    old_variable = os.environ.get("TMPDIR")
    os.environ["TMPDIR"] = str(home)
    before, shared_before, others = gpu_bytes(), _shared_memory(), set(descendants())
    begun = time.monotonic()
    seen: set[Process] = set()
    one_at_a_time = threading.Lock()

    def row(number: int) -> None:
        """One evaluator's part."""
        nonlocal results
        part = count // workers + (number < count % workers)
        with LocalEvaluator(device=device, timeout=timeout, gpu=gpu_of(number, device)) as local:
            for entry in mixture(here, part, faults, random.Random(seed + number), most_problems):
                if time.monotonic() - begun > most_seconds:
                    break
                turn = _turn(local, entry, hardware, seen)
                with one_at_a_time:
                    results = results.model_copy(update={"turns": (*results.turns, turn)})
                    if on_turn is not None:
                        on_turn(turn)
                    if out is not None and len(results.turns) % 20 == 0:
                        write_results(out, results, soak_page(results), complaints=results.complaints)

    try:
        where = environment(use_gpu=device != "none")
        ladder = "gpu" if where.gpu is not None and device != "none" else "cpu"
        results = results.model_copy(
            update={"ladder": ladder, "terms": results.terms.model_copy(update={"environment": where})}
        )
        here = [entry for entry in entries if ladder in entry.header.where]
        hardware = choose_target("auto")
        with ThreadPoolExecutor(workers) as threads:
            list(threads.map(row, range(workers)))
        time.sleep(2.0)  # the kernel and the driver take a moment to bury the dead
        ours = {*seen, *(p for p in everybody() if p.holds(str(home)))} - others
        left = [process for process in ours if process.alive]
        files = [str(path.relative_to(home)) for path in sorted(home.rglob("*"))]
        files += sorted(name for name in _shared_memory() - shared_before if _is_of(name, seen))
        results = results.model_copy(
            update={
                "processes_left": tuple(process.command for process in left if process.pid != os.getpid()),
                "files_left": tuple(files),
                "gpu_bytes_before": before,
                "gpu_bytes_after": gpu_bytes(),
            }
        )
    finally:
        tempfile.tempdir = old_home
        if old_variable is None:
            os.environ.pop("TMPDIR")
        else:
            os.environ["TMPDIR"] = old_variable
        shutil.rmtree(home, ignore_errors=True)
    if out is not None:
        write_results(out, results, soak_page(results), complaints=results.complaints)
    return results


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
        ("GPU memory in use before and after", _gpu_told(results)),
    ]
    complaints = [f"- {complaint}" for complaint in results.complaints] or ["Nothing to complain of."]
    by_fault: dict[tuple[str, str], int] = {}
    for turn in results.turns:
        if turn.fault:
            by_fault[(turn.id, turn.status)] = by_fault.get((turn.id, turn.status), 0) + 1
    faults = [(name, status, str(times)) for (name, status), times in sorted(by_fault.items())]
    lines = ["# soak", "", results.terms.line, "", *table(("what", "found"), rows), "", *complaints, ""]
    lines += table(("fault", "verdict", "times"), faults) if faults else []
    return "\n".join(lines).rstrip() + "\n"


def gpu_bytes() -> int | None:
    """Bytes in use on all visible GPUs as their driver tells, by whomever; None where there is none to ask."""
    visible = visible_gpus()
    if not visible:
        return None
    command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", f"--id={','.join(visible)}"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout
        return sum(int(word) for word in answer.split()) << 20
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None


def mixture(entries: Sequence[Entry], count: int, faults: bool, draw: random.Random, most_problems: int) -> list[Entry]:
    """A row of evaluations; a right kernel comes after each faulty one.

    Raises:
        BadInput: if there is no right kernel among the entries.
    """
    right = [entry for entry in entries if entry.header.honest]
    faulty = [entry for entry in entries if not entry.header.honest]
    if not right:
        raise BadInput("soak: the corpora hold no right kernel for this ladder; name a folder that does")
    known = [entry.header.problem for entry in faulty]
    names = sorted({entry.header.problem for entry in right}, key=lambda name: (-known.count(name), name))
    chosen = set(names[:most_problems])
    right = [entry for entry in right if entry.header.problem in chosen]
    faulty = [entry for entry in faulty if entry.header.problem in chosen] if faults else []
    row: list[Entry] = []
    while len(row) < count:
        if faulty and draw.random() < 0.5:
            row.append(draw.choice(faulty))
        row.append(draw.choice(right))
    return row[:count]


def _turn(local: LocalEvaluator, entry: Entry, hardware: Hardware, seen: set[Process]) -> Turn:
    begun = time.monotonic()
    try:
        evaluation = local.evaluate(task_of(entry, hardware), candidate_of(entry))
        status, outcome = str(evaluation.status), str(entry.header.outcome(evaluation))
    except InfrastructureError as error:
        status, outcome = f"infra_error: {' '.join(str(error).split())[:200]}", "not_judged"
    seconds = time.monotonic() - begun
    judge = judges()
    household = [*judge, *(process for one in judge for process in descendants(one.pid))]
    seen.update(household)
    settled = [process for process in household if process.age_seconds > SETTLED]
    return Turn(
        id=entry.header.id,
        fault=not entry.header.honest,
        status=status,
        outcome=outcome,
        seconds=seconds,
        resident_bytes=sum(process.resident_bytes for process in settled),
        descriptors=sum(process.descriptors for process in settled),
        processes=len(household),
        judges=tuple(process.pid for process in judge),
    )


def _shared_memory() -> set[str]:
    try:
        return set(os.listdir("/dev/shm"))
    except OSError:
        return set()


def _is_of(name: str, seen: set[Process]) -> bool:
    """Whether a piece of shared memory carries the number of one of our processes, or our name."""
    return "egg" in name or any(str(process.pid) in name for process in seen)


def _gpu_told(results: SoakResults) -> str:
    if results.gpu_bytes_before is None or results.gpu_bytes_after is None:
        return "not measured: no nvidia-smi"
    return f"{results.gpu_bytes_before >> 20} MiB, {results.gpu_bytes_after >> 20} MiB"

"""Run generated kernels in the guarded interpreter and on a GPU, and compare the answers bit by bit."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, cast, get_args

from egg_graph.bench.provenance import Provenance, current_provenance
from egg_graph.bench.writing import markdown_table, write_results
from egg_graph.schema import Value
from tests.evaluator.interpreter.generated.catalogue import all_kernels
from tests.evaluator.interpreter.generated.comparison import compared
from tests.evaluator.interpreter.generated.errors import ERRORS
from tests.evaluator.interpreter.generated.recording import (
    answers_of,
    read_recording,
    source_digest,
    write_recording,
)
from tests.evaluator.interpreter.generated.writer import GeneratedKernel
from tests.paths import IMPORTABLE, ROOT

PATIENCE = 120.0
"""Seconds without an answer after which a process is ended, and its kernel called lost."""
Outcome = Literal[
    "same bits", "within error", "different", "not compiled", "refused by the interpreter", "refused by both", "lost",
    "interpreted and compiled", "stale",
]  # fmt: skip
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
FINDINGS: tuple[Outcome, ...] = ("different", "not compiled", "refused by the interpreter", "lost", "stale")
"""Outcomes in which interpreter and hardware disagree, or there is no answer."""
Answers = dict[str, dict[str, Any]]


class HardwareRow(Value):
    """What became of one kernel."""

    name: str
    """Category and number: the seed."""
    outcome: Outcome
    detail: str = ""
    """What differs, or the line of the compiler, of the interpreter or of both."""

    @property
    def category(self) -> str:
        """The name without its number."""
        return self.name.rpartition("_")[0]


class HardwareResults(Value):
    """All kernels of one run."""

    terms: Provenance
    other_side: str
    """What the interpreter was held against: `gpu`, `compiler` or a recording."""
    torch: str
    triton: str
    seconds: float = 0.0
    rows: tuple[HardwareRow, ...] = ()

    @property
    def findings(self) -> list[HardwareRow]:
        """The kernels that somebody has to look at."""
        return [row for row in self.rows if row.outcome in FINDINGS]


def run_hardware(
    out: Path | None,
    *,
    gpu: bool,
    workers: int,
    only: str = "",
    recorded: Path | None = None,
    on_row: Callable[[HardwareRow], None] = lambda _: None,
) -> HardwareResults:
    """Run all kernels on both sides and compare.

    Args:
        out: results files; a run on a GPU writes its answers beside them, as `<out>_answers.json.gz`.
        gpu: whether to run on the GPU; otherwise the kernels are compiled only, for the H200.
        workers: processes side by side.
        only: comma-separated beginnings of names; all kernels if empty.
        recorded: answers of the hardware to compare with, in place of a GPU or a compiler.
        on_row: called with every row, when all are done.

    Raises:
        BadInput: if the results cannot be written.
    """
    from egg_graph.evaluator import environment

    began = time.monotonic()
    kernels = list(all_kernels(only))
    other = "recording" if recorded else "gpu" if gpu else "compiler"
    with tempfile.TemporaryDirectory(prefix="egg-hardware-") as folder:
        for kernel in kernels:
            (Path(folder) / f"{kernel.name}.py").write_text(kernel.source, encoding="utf-8")
        sides = ("interpreter",) if recorded else ("interpreter", other)
        interpreted, answered = _all_answers(kernels, sides, Path(folder), workers)
    if recorded:
        answered = read_recording(recorded)
    rows = []
    for kernel in kernels:
        rows.append(
            compared_row(kernel, interpreted.get(kernel.name), answered.get(kernel.name), stored=recorded is not None)
        )
        on_row(rows[-1])
    results = HardwareResults(
        terms=current_provenance(environment()), other_side=str(recorded.name) if recorded else other,
        torch=_version("torch"), triton=_version("triton"), seconds=round(time.monotonic() - began, 1),
        rows=tuple(rows),
    )  # fmt: skip
    if out is not None:
        write_results(out, results, hardware_page(results))
        if gpu and not recorded:
            signed = {kernel.name: {"source": source_digest(kernel), **answered[kernel.name]} for kernel in kernels}
            write_recording(out.with_name(f"{out.stem}_answers.json.gz"), signed)
    return results


def _version(package: str) -> str:
    from importlib.metadata import version

    return version(package)


def _all_answers(
    kernels: Sequence[GeneratedKernel], sides: Sequence[str], folder: Path, workers: int
) -> tuple[Answers, Answers]:
    """Ask one side after the other about every kernel, in `workers` rows side by side."""
    names = [kernel.name for kernel in kernels]
    rows = [names[start::workers] for start in range(workers) if names[start::workers]]

    def ask(row: list[str]) -> list[Answers]:
        return [answers_of_side(side, row, folder) for side in sides]

    both: tuple[Answers, Answers] = ({}, {})
    with ThreadPoolExecutor(max(1, len(rows))) as pool:
        for answers in pool.map(ask, rows):
            for total, part in zip(both, answers, strict=False):
                total.update(part)
    return both


def answers_of_side(side: str, names: list[str], folder: Path) -> Answers:
    """Ask one side about some kernels, in a process; where it ends early, in another one about the rest."""
    found: Answers = {}
    left = list(names)
    while left:
        begun, why = _one_process(side, left, folder, found)
        if begun is not None and begun not in found:
            found[begun] = {"lost": why}
        rest = [name for name in left if name not in found]
        if len(rest) == len(left):
            found.update({name: {"lost": why} for name in rest})
            break
        left = rest
    return found


def _one_process(side: str, names: list[str], folder: Path, found: Answers) -> tuple[str | None, str]:
    """Let one process answer as far as it comes; return the kernel that it began last, and how it ended."""
    inherited = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment = {**inherited, "PYTHONPATH": IMPORTABLE, "OMP_NUM_THREADS": "1"}
    environment["TRITON_CACHE_DIR"] = str(folder / "cache")
    if side == "interpreter":
        environment["TRITON_INTERPRET"] = "1"
    command = [sys.executable, "-m", "tests.evaluator.interpreter.generated.answering", side, str(folder), *names]
    with tempfile.TemporaryFile("w+") as answers, tempfile.TemporaryFile("w+") as messages:
        process = subprocess.Popen(command, stdout=answers, stderr=messages, env=environment, cwd=ROOT)
        in_time = _wait(process, lambda: os.fstat(answers.fileno()).st_size)
        answers.seek(0)
        begun = None
        *whole, _cut = answers.read().split("\n")
        for line in whole:
            answer = json.loads(line)
            begun = answer.get("begin", begun)
            if "name" in answer:
                found[answer.pop("name")] = answer
        messages.seek(0)
        last = messages.read().strip().splitlines()[-1:]
    return begun, f"{'ended' if in_time else 'silent, killed'} with {process.returncode}: {' '.join(last)}"


def _wait(process: subprocess.Popen[bytes], size: Callable[[], int]) -> bool:
    """Wait for the end of a process; kill it once its output has not grown for `PATIENCE` seconds."""
    seen, since = -1, time.monotonic()
    while process.poll() is None:
        if size() != seen:
            seen, since = size(), time.monotonic()
        elif time.monotonic() - since > PATIENCE:
            process.kill()
            process.wait()
            return False
        time.sleep(0.1)
    return True


def compared_row(
    kernel: GeneratedKernel, here: Mapping[str, Any] | None, there: Mapping[str, Any] | None, *, stored: bool
) -> HardwareRow:
    """Compare the two answers to one kernel."""
    if stored and (there is None or there["source"] != source_digest(kernel)):
        return HardwareRow(name=kernel.name, outcome="stale", detail="the recording is of another text of this kernel")
    here, there = here or {"lost": "no answer"}, there or {"lost": "no answer"}
    lost = "; ".join(str(side["lost"]) for side in (here, there) if "lost" in side)
    refusals = [str(side["refused"]) for side in (here, there) if "refused" in side]
    if lost:
        return HardwareRow(name=kernel.name, outcome="lost", detail=lost)
    if "refused" in here:
        outcome: Outcome = "refused by both" if "refused" in there else "refused by the interpreter"
        refusals += ["not compiled, for there is no launch to compile"] if "skipped" in there else []
        return HardwareRow(name=kernel.name, outcome=outcome, detail=" / ".join(refusals))
    if "refused" in there:
        return HardwareRow(name=kernel.name, outcome="not compiled", detail=refusals[0])
    if not there["outputs"]:
        return HardwareRow(name=kernel.name, outcome="interpreted and compiled")
    result, detail = compared(answers_of(here), answers_of(there), kernel.errors)
    return HardwareRow(name=kernel.name, outcome=cast(Outcome, result), detail=detail)


def hardware_page(results: HardwareResults) -> str:
    """The outcomes by category, every finding, and the classes of error, in Markdown."""
    total = Counter(row.outcome for row in results.rows)
    shown = [outcome for outcome in OUTCOMES if total[outcome]]
    table = []
    for category in dict.fromkeys(row.category for row in results.rows):
        counts = Counter(row.outcome for row in results.rows if row.category == category)
        table.append((category, str(sum(counts.values())), *(str(counts[outcome] or "") for outcome in shown)))
    table.append(("all", str(len(results.rows)), *(str(total[outcome]) for outcome in shown)))
    refused = [row for row in results.rows if row.outcome == "refused by both"]
    findings = [(row.name, row.outcome, _one_line(row.detail)) for row in (*results.findings, *refused)]
    lines = [
        "# The interpreter against hardware", "", results.terms.line,
        f"The guarded interpreter against: {results.other_side}. torch {results.torch}, triton {results.triton}; "
        f"{results.seconds:.0f} s.", "", *markdown_table(("category", "kernels", *shown), table), "",
        "A kernel's name is its seed: `tests/evaluator/interpreter/generated` writes its text from it.", "",
        *markdown_table(("kernel", "outcome", "what"), findings), "", "## Errors allowed", "",
        *markdown_table(("class", "documented by"), [(name, bound.source) for name, bound in ERRORS.items()]),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _one_line(text: str) -> str:
    line = " ".join(text.split()).replace("|", "¦")
    return line if len(line) <= 400 else line[:400] + "…"

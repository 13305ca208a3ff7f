"""Judge every file of a corpus, and compare each verdict with what the file's header expects."""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from itertools import groupby
from pathlib import Path

from egg_graph.bench.provenance import evaluator_digest, utc_now, version
from egg_graph.bench.trust.headers import Entry, read_entries
from egg_graph.bench.trust.rows import CorpusResults, CorpusRow, CorpusRun, corpus_page, rates
from egg_graph.bench.writing import read_earlier, write_results
from egg_graph.context import Device, choose_target
from egg_graph.evaluator import LocalEvaluator, gpu_present
from egg_graph.evaluator.cancellation import cancellable
from egg_graph.evaluator.device.detect import visible_gpus
from egg_graph.schema import BadInput, Candidate, Evaluation, Hardware, InfrastructureError, KernelTask

SAME = ("version", "evaluator", "ladder", "repeat", "timeout", "finalist", "target")
"""Fields that must agree for rows of an earlier run to be kept."""


def run_corpus(
    folders: Sequence[Path],
    out: Path | None = None,
    *,
    problems: Path | None = None,
    device: Device = "auto",
    repeat: int = 1,
    timeout: float = 60.0,
    finalist: bool = False,
    only: Sequence[str] = (),
    keep: bool = False,
    target: str = "auto",
    workers: int = 1,
    on_row: Callable[[CorpusRow], None] | None = None,
    evaluator: LocalEvaluator | None = None,
) -> CorpusResults:
    """Judge a corpus; with `out`, rewrite `out` (.json) and the page beside it (.md) after every file.

    Args:
        folders: where the corpus is.
        out: the results file.
        problems: folder of references; None finds it beside the corpus.
        device: where to judge.
        repeat: how often each file is judged; the worst outcome counts.
        timeout: seconds that one run of a candidate may take.
        finalist: judge every file as a finalist.
        only: ids to judge; all of them if empty.
        keep: keep the rows that `out` holds of unchanged files on the same terms.
        target: GPU to compile for.
        workers: evaluators side by side, assigned to the machine's GPUs; on one GPU they measure in turns.
        on_row: called with each new row.
        evaluator: one that is already warm; it is left open.

    Raises:
        BadInput: for a bad header or a results file made on other terms.
    """
    entries = _select(read_entries(folders, problems), only)
    given = nullcontext([evaluator]) if evaluator is not None else _open_evaluators(workers, device, timeout)
    with given as evaluators:
        environment = evaluators[0].environment()
        ladder = "gpu" if environment.gpu is not None and device != "none" else "cpu"
        hardware = choose_target(target)
        results = CorpusResults(
            name=out.stem if out is not None else "corpus",
            version=version(),
            evaluator=evaluator_digest(),
            started=utc_now(),
            folders=tuple(folder.name for folder in folders),
            ladder=ladder,
            repeat=repeat,
            timeout=timeout,
            finalist=finalist,
            target=hardware.name,
            environment=environment,
            elsewhere=tuple(entry.header.id for entry in entries if ladder not in entry.header.where),
        )
        here = [entry for entry in entries if ladder in entry.header.where]
        earlier = read_earlier(out, results, dict.fromkeys(SAME, True)).rows if keep and out is not None else ()
        collector = _Collector(results, here, earlier, out, on_row)
        batches = deque(_batches(collector.missing, len(evaluators)))

        async def judge(local: LocalEvaluator) -> None:
            while batches:
                for entry in batches.popleft():
                    collector.add(await cancellable(_judge, local, entry, hardware, repeat, finalist))

        async def judge_all() -> None:
            await asyncio.gather(*map(judge, evaluators))

        asyncio.run(judge_all())  # SIGINT cancels it, and with it the evaluations under way
        return collector.results


@contextmanager
def _open_evaluators(workers: int, device: Device, timeout: float) -> Iterator[list[LocalEvaluator]]:
    """Open evaluators side by side, and close them at the end."""
    with ExitStack() as stack:
        evaluators = []
        for number in range(workers):
            evaluators.append(LocalEvaluator(device=device, timeout=timeout, gpu=assign_gpu(number, device)))
            stack.callback(evaluators[-1].close)
        yield evaluators


class _Collector:
    """Gathers rows in the order of the corpus, and rewrites the results after each.

    Args:
        results: the results without rows.
        entries: files to be judged.
        earlier: rows of an earlier run; those of unchanged files are kept.
        out: the results file.
        on_row: called with each new row.
    """

    def __init__(
        self,
        results: CorpusResults,
        entries: Sequence[Entry],
        earlier: Sequence[CorpusRow],
        out: Path | None,
        on_row: Callable[[CorpusRow], None] | None,
    ) -> None:
        digests = {entry.file: entry.digest for entry in entries}
        kept = {row.file: row for row in earlier if row.outcome != "not_judged" and digests.get(row.file) == row.digest}
        self.order = {file: place for place, file in enumerate(digests)}
        self.results = results.model_copy(update={"rows": tuple(kept[file] for file in digests if file in kept)})
        self.missing = [entry for entry in entries if entry.file not in kept]
        self.out, self.on_row = out, on_row

    def add(self, row: CorpusRow) -> None:
        """Add a new row."""
        if self.on_row is not None:
            self.on_row(row)
        rows = tuple(sorted((*self.results.rows, row), key=lambda known: self.order[known.file]))
        self.results = self.results.model_copy(update={"rows": rows})
        if self.out is not None:
            write_results(self.out, self.results, corpus_page(self.results), summary=_summary(rows))


def assign_gpu(number: int, device: Device) -> str | None:
    """The UUID of the GPU that evaluator `number` (from 0) gets, in turns; None where evaluators get none."""
    gpus = visible_gpus() if device == "gpu" or (device == "auto" and gpu_present()) else ()
    return gpus[number % len(gpus)] if gpus else None


def _batches(entries: Sequence[Entry], workers: int) -> list[list[Entry]]:
    """Batches of files of one problem, the largest first.

    An evaluator has to learn a problem and to measure its baseline, so files of one problem stay together; no batch is
    so large that the other evaluators would have to wait for it.
    """
    most = max(1, math.ceil(len(entries) / (4 * workers)))
    batches: list[list[Entry]] = []
    for _, group in groupby(sorted(entries, key=_problem), key=_problem):
        files = list(group)
        batches += [files[start : start + most] for start in range(0, len(files), most)]
    return sorted(batches, key=len, reverse=True)


def _problem(entry: Entry) -> tuple[str, str, str, bool]:
    """What an evaluator learns once."""
    header = entry.header
    return header.problem, header.precision, header.terms.domain, header.terms.triton_only


def _summary(rows: Sequence[CorpusRow]) -> dict[str, object]:
    """The derived field `summary` of a results file."""
    found = rates(rows)
    return {
        **found.model_dump(mode="json"),
        "catch_rate": found.catch_rate,
        "false_reject_rate": found.false_reject_rate,
        "misses": [row.header.id for row in rows if row.outcome in ("missed", "misnamed")],
    }


def _select(entries: tuple[Entry, ...], only: Sequence[str]) -> tuple[Entry, ...]:
    known = {entry.header.id for entry in entries}
    if unknown := [name for name in only if name not in known]:
        raise BadInput(f"--only {unknown[0]}: no file has this id; there are {', '.join(sorted(known))}")
    return tuple(entry for entry in entries if not only or entry.header.id in only)


def _judge(local: LocalEvaluator, entry: Entry, hardware: Hardware, repeat: int, finalist: bool) -> CorpusRow:
    task, candidate = task_of(entry, hardware), candidate_of(entry)
    runs = tuple(_run_once(local, task, candidate, entry, finalist or entry.header.finalist) for _ in range(repeat))
    return CorpusRow(header=entry.header, file=entry.file, digest=entry.digest, runs=runs)


def _run_once(local: LocalEvaluator, task: KernelTask, candidate: Candidate, entry: Entry, finalist: bool) -> CorpusRun:
    begun = time.monotonic()
    try:
        evaluation = local.evaluate(task, candidate, finalist=finalist)
    except (InfrastructureError, BadInput) as error:  # the next file is judged all the same
        return CorpusRun(
            status="infra_error" if isinstance(error, InfrastructureError) else "bad_input",
            reason=" ".join(str(error).split()),
            outcome="not_judged",
            seconds=time.monotonic() - begun,
        )
    return CorpusRun(
        status=evaluation.status,
        reason=evaluation.reason,
        findings=finding_kinds(evaluation),
        outcome=entry.header.outcome(evaluation),
        seconds=time.monotonic() - begun,
        seed=evaluation.seed,
    )


def finding_kinds(evaluation: Evaluation) -> tuple[str, ...]:
    """Kinds of an evaluation's findings, each once, in order."""
    return tuple(dict.fromkeys(finding.kind for finding in evaluation.findings))


def task_of(entry: Entry, hardware: Hardware) -> KernelTask:
    """The task that a corpus file is judged on."""
    header = entry.header
    return KernelTask(
        name=header.problem,
        reference=entry.reference,
        target=hardware,
        precision=header.precision,
        domain=header.terms.domain,
        triton_only=header.terms.triton_only,
    )


def candidate_of(entry: Entry) -> Candidate:
    """A corpus file as a candidate, without its header, so that no verdict can rest on the header."""
    lines = entry.source.splitlines(keepends=True)
    end = next(number for number, line in enumerate(lines) if line.rstrip() == "# ///")
    source = "".join(lines[end + 1 :])
    return Candidate(source=source, author="corpus", stage="algorithmic_structure", mode="seed")

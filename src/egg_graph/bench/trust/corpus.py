"""Judge every file of a corpus, and hold each verdict against what the file's header expects."""

import datetime
import json
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import Literal

from egg_graph.bench.trust.dealing import gpu_of
from egg_graph.bench.trust.headers import Entry, read_entries
from egg_graph.bench.trust.pages import corpus_page
from egg_graph.bench.trust.values import CorpusResults, CorpusRow, Judged, evaluator_digest, rates
from egg_graph.bench.trust.writing import write_results
from egg_graph.bench.version import version
from egg_graph.evaluator import LocalEvaluator
from egg_graph.schema import BadInput, Candidate, Evaluation, Hardware, InfrastructureError, KernelTask
from egg_graph.target import choose_target


def run_corpus(
    folders: Sequence[Path],
    out: Path | None = None,
    *,
    problems: Path | None = None,
    device: Literal["auto", "gpu", "none"] = "auto",
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
        device: ladder to evaluation.
        repeat: how often each file is judged; the worst outcome counts.
        timeout: seconds that one run of a candidate may take.
        finalist: judge every file as a finalist.
        only: ids to judge; all of them if empty.
        keep: keep the rows that `out` holds of unchanged files on the same terms.
        target: GPU to compile for.
        workers: evaluators side by side, dealt to the machine's GPUs; on one GPU they measure in turns.
        on_row: called with each new row.
        evaluator: one that is already warm; it is left open.

    Raises:
        BadInput: for a bad header or a results file made on other terms.
    """
    entries = _chosen(read_entries(folders, problems), only)
    count = workers if evaluator is None else 0
    own = [LocalEvaluator(device=device, timeout=timeout, gpu=gpu_of(n, device)) for n in range(count)]
    evaluators = [evaluator] if evaluator is not None else own
    try:
        where = evaluators[0].environment()
        ladder: Literal["cpu", "gpu"] = "gpu" if where.gpu is not None and device != "none" else "cpu"
        hardware = choose_target(target)
        here = [entry for entry in entries if ladder in entry.header.where]
        results = CorpusResults(
            name=out.stem if out is not None else "corpus",
            version=version(),
            evaluator=evaluator_digest(),
            started=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            folders=tuple(folder.name for folder in folders),
            ladder=ladder,
            repeat=repeat,
            timeout=timeout,
            finalist=finalist,
            target=hardware.name,
            environment=where,
            elsewhere=tuple(entry.header.id for entry in entries if ladder not in entry.header.where),
        )
        kept = {row.file: row for row in _kept(results, out)} if keep and out is not None else {}

        places = {_shown(entry): place for place, entry in enumerate(here)}
        done = {_shown(e): row for e in here if (row := kept.get(_shown(e))) and row.digest == e.digest}
        results = results.model_copy(update={"rows": tuple(done.values())})
        parts = deque(_parts([entry for entry in here if _shown(entry) not in done], len(evaluators)))
        one_at_a_time = threading.Lock()

        def add(row: CorpusRow) -> None:
            nonlocal results
            with one_at_a_time:
                if on_row is not None:
                    on_row(row)
                rows = sorted((*results.rows, row), key=lambda known: places[known.file])
                results = results.model_copy(update={"rows": tuple(rows)})
                if out is not None:
                    write_results(out, results, corpus_page(results), **_counted(results))

        def take(local: LocalEvaluator) -> None:
            while True:
                try:
                    part = parts.popleft()
                except IndexError:
                    return
                for entry in part:
                    add(_judge(local, entry, hardware, repeat, finalist))

        with ThreadPoolExecutor(len(evaluators)) as threads:
            list(threads.map(take, evaluators))
        return results
    finally:
        for local in own:
            local.close()


def _parts(entries: Sequence[Entry], workers: int) -> list[list[Entry]]:
    """Files of one problem each, since an evaluator has to learn a problem and to measure its baseline; the largest
    parts first, and none so large that the other evaluators would have to wait for it."""
    most = max(1, math.ceil(len(entries) / (4 * workers)))
    parts: list[list[Entry]] = []
    for _, group in groupby(sorted(entries, key=_problem), key=_problem):
        files = list(group)
        parts += [files[start : start + most] for start in range(0, len(files), most)]
    return sorted(parts, key=len, reverse=True)


def _problem(entry: Entry) -> tuple[str, str, bool]:
    """What an evaluator learns once."""
    header = entry.header
    return header.problem, header.precision, header.terms.triton_only


def _counted(results: CorpusResults) -> dict[str, object]:
    """What is told beside the rows, and derived from them."""
    found = rates(results.rows)
    derived = {"catch_rate": found.catch_rate, "false_reject_rate": found.false_reject_rate}
    missed = [row.header.id for row in results.rows if row.outcome in ("missed", "misnamed")]
    return {
        "summary": {**found.model_dump(mode="json"), **derived, "misses": missed},
    }


def _chosen(entries: tuple[Entry, ...], only: Sequence[str]) -> tuple[Entry, ...]:
    known = {entry.header.id for entry in entries}
    if unknown := [name for name in only if name not in known]:
        raise BadInput(f"--only {unknown[0]}: no file has this id; there are {', '.join(sorted(known))}")
    return tuple(entry for entry in entries if not only or entry.header.id in only)


def _judge(local: LocalEvaluator, entry: Entry, hardware: Hardware, repeat: int, finalist: bool) -> CorpusRow:
    task, candidate = task_of(entry, hardware), candidate_of(entry)
    runs = tuple(_once(local, task, candidate, entry, finalist or entry.header.finalist) for _ in range(repeat))
    return CorpusRow(header=entry.header, file=_shown(entry), digest=entry.digest, runs=runs)


def _once(local: LocalEvaluator, task: KernelTask, candidate: Candidate, entry: Entry, finalist: bool) -> Judged:
    begun = time.monotonic()
    try:
        evaluation = local.evaluate(task, candidate, finalist=finalist)
    except (InfrastructureError, BadInput) as error:  # the next file is judged all the same
        return Judged(
            status="infra_error" if isinstance(error, InfrastructureError) else "bad_input",
            reason=" ".join(str(error).split()),
            outcome="not_judged",
            seconds=time.monotonic() - begun,
        )
    return Judged(
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
        triton_only=header.terms.triton_only,
    )


def candidate_of(entry: Entry) -> Candidate:
    """A corpus file as a candidate; its header stays behind, so that no verdict can rest on it."""
    lines = entry.source.splitlines(keepends=True)
    end = next(number for number, line in enumerate(lines) if line.rstrip() == "# ///")
    source = "".join(lines[end + 1 :])
    return Candidate(source=source, author="corpus", stage="algorithmic_structure", mode="seed")


def _shown(entry: Entry) -> str:
    """`folder/file.py`: enough to find it, and no path of this machine."""
    return f"{entry.path.parent.name}/{entry.path.name}"


def _kept(fresh: CorpusResults, out: Path) -> tuple[CorpusRow, ...]:
    path = out.with_suffix(".json")
    if not path.exists():
        return ()
    stored = json.loads(path.read_text(encoding="utf-8"))
    stored.pop("summary", None)
    old = CorpusResults.model_validate(stored)
    terms = ("version", "evaluator", "ladder", "repeat", "timeout", "finalist", "target")
    if any(getattr(old, term) != getattr(fresh, term) for term in terms):
        raise BadInput(
            f"{path}: judged by another evaluator or on other terms; give another --out, or leave out --keep"
        )
    return tuple(row for row in old.rows if row.outcome != "not_judged")

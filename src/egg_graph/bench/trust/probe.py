"""Judge problems before candidates: with which references of a benchmark could an answer without computing get away?

Every reference is run in a process of its own by the code that judges candidates: the nulls (zeros, a constant, the
answer to other inputs, ...) are put to it under our budgets and under KernelBench's fixed tolerance.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

from egg_graph.bench.trust.terms import Terms, terms_now
from egg_graph.bench.trust.writing import table, write_results
from egg_graph.evaluator.device.detect import environment
from egg_graph.evaluator.device.gpus import visible_gpus
from egg_graph.evaluator.host.environment import clean_environment
from egg_graph.schema import BadInput, Precision, Value

SECONDS = 120.0
LAST_WORDS = 300


class Probe(Value):
    """What is known about one problem."""

    problem: str
    """`level2/80_Gemm_Max_Subtract_GELU`: folder and file."""
    verdict: Literal["evaluable", "unevaluable", "not probed"]
    reason: str = ""
    """Why not."""
    weaknesses: tuple[str, ...] = ()
    """What would pass at KernelBench's fixed tolerance, and what does not matter even to ours."""
    families: tuple[str, ...] = ()
    """Input families that candidates are judged on."""
    dropped: dict[str, dict[str, str]] = {}
    """By shape, families on which PyTorch itself gives nothing to judge by, and why."""
    seconds: float = 0.0

    @property
    def short(self) -> str:
        """`L2/80`: as benchmarks are cited."""
        folder, _, file = self.problem.partition("/")
        return f"L{folder.removeprefix('level')}/{file.split('_')[0]}"


class ProbeResults(Value):
    """All problems of one run."""

    terms: Terms
    precision: Precision
    asked: int = 0
    """Problems of the suite; a run that was stopped has fewer rows."""
    rows: tuple[Probe, ...] = ()


def probe_suite(
    references: Sequence[Path],
    out: Path | None = None,
    *,
    device: Literal["gpu", "none"],
    precision: Precision = "ieee",
    workers: int = 1,
    seconds: float = SECONDS,
    reported: Path | None = None,
    keep: bool = False,
    on_probe: Callable[[Probe], None] | None = None,
) -> ProbeResults:
    """Probe references side by side.

    Args:
        references: files in KernelBench's form.
        out: results file, rewritten after every problem.
        device: `gpu` runs the references on the GPU, where the fixed tolerance is tried at their own shapes if memory
            allows; `none` on the CPU, mostly at reduced shapes.
        precision: policy under which candidates would be judged.
        workers: processes at a time, dealt to the GPUs there are.
        seconds: for one problem; longer is `not probed`.
        reported: TOML file of what others have said about these problems, for the page.
        keep: keep the rows that `out` has; probe the rest.
        on_probe: called with each result as it comes, from any thread.

    Raises:
        BadInput: if `reported` cannot be read or `out` not be written.
    """
    told = _reported(reported)
    terms = terms_now().model_copy(update={"environment": environment(use_gpu=device == "gpu")})
    results = ProbeResults(terms=terms, precision=precision, asked=len(references))
    kept = {row.problem: row for row in _kept(out, results)} if keep else {}

    gpus = itertools.cycle(visible_gpus() if device == "gpu" else ())

    def one(reference: Path) -> Probe:
        if (name := _name(reference)) in kept:
            return kept[name]
        found = _one(reference, next(gpus, None), precision, seconds)
        if on_probe is not None:
            on_probe(found)
        return found

    with ThreadPoolExecutor(workers) as pool:
        for row in pool.map(one, references):
            results = results.model_copy(update={"rows": (*results.rows, row)})
            if out is not None:
                write_results(out, results, probe_page(results, told), summary=_summary(results))
    return results


def _kept(out: Path | None, fresh: ProbeResults) -> tuple[Probe, ...]:
    """Rows of an earlier run on the same terms; what was not probed is tried again.

    Raises:
        BadInput: if the terms differ.
    """
    if out is None or not (path := out.with_suffix(".json")).exists():
        return ()
    stored = json.loads(path.read_text(encoding="utf-8"))
    stored.pop("summary", None)
    old = ProbeResults.model_validate(stored)
    if (old.terms.evaluator, old.precision, old.terms.environment) != (
        fresh.terms.evaluator,
        fresh.precision,
        fresh.terms.environment,
    ):
        raise BadInput(f"{path}: made by another evaluator or on other terms; give another --out, or leave out --keep")
    return tuple(row for row in old.rows if row.verdict != "not probed")


def _reported(path: Path | None) -> Mapping[str, Mapping[str, Any]]:
    if path is None:
        return {}
    try:
        return dict(tomllib.loads(path.read_text(encoding="utf-8"))["problem"])
    except (OSError, KeyError, tomllib.TOMLDecodeError) as error:
        raise BadInput(f"{path}: cannot be read as reports; a TOML table [problem] is wanted ({error})") from error


def _name(reference: Path) -> str:
    return f"{reference.parent.name}/{reference.stem}"


def _one(reference: Path, gpu: str | None, precision: Precision, seconds: float) -> Probe:
    """One problem in a process of its own, on a GPU by its UUID or on the CPU."""
    started = time.monotonic()
    device, visible = ("gpu", {"CUDA_VISIBLE_DEVICES": gpu}) if gpu else ("none", {})
    command = [sys.executable, "-m", "egg_graph.bench.trust.probe_process", str(reference.resolve()), device, precision]
    name = _name(reference)
    try:
        done = subprocess.run(
            command, env=clean_environment() | visible, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return Probe(problem=name, verdict="not probed", reason=f"not done within {seconds:.0f} s", seconds=seconds)
    took = round(time.monotonic() - started, 2)
    if done.returncode != 0:
        words = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        return Probe(problem=name, verdict="not probed", reason=words[0][:LAST_WORDS], seconds=took)
    return Probe(problem=name, seconds=took, **json.loads(done.stdout.strip().splitlines()[-1]))


# ------------------------------------------------------------------------------------------------------- page


def _summary(results: ProbeResults) -> dict[str, int]:
    return {
        "problems": len(results.rows),
        "unevaluable": sum(row.verdict == "unevaluable" for row in results.rows),
        "not_probed": sum(row.verdict == "not probed" for row in results.rows),
        "weak_at_fixed_tolerance": sum(bool(row.weaknesses) for row in results.rows),
    }


def probe_page(results: ProbeResults, told: Mapping[str, Mapping[str, Any]]) -> str:
    """The problems that are not plainly sound as a Markdown page, beside what others have reported.

    Args:
        results: of a run.
        told: by short name, what has been reported: `says`, `source`, and `at`, the tolerance.
    """
    count = _summary(results)
    shown = [row for row in results.rows if row.verdict != "evaluable" or row.weaknesses or row.short in told]
    rows = [(row.problem, _verdict(row), _weak(row), _told(told.get(row.short))) for row in shown]
    return "\n".join(
        [
            "# Problems judged before candidates",
            "",
            f"{results.terms.line} Precision {results.precision}.",
            "",
            f"{count['problems']} of {results.asked} problems: {count['unevaluable']} unevaluable, "
            f"{count['not_probed']} not probed, "
            f"{count['weak_at_fixed_tolerance']} where something that was not computed passes KernelBench's fixed "
            "tolerance (atol = rtol) or the weights do not matter. Not shown: problems with nothing to tell.",
            "",
            *table(("problem", "with our budgets", "with a fixed tolerance", "reported elsewhere"), rows),
            "",
        ]
    )


def _verdict(row: Probe) -> str:
    return row.verdict if not row.reason else f"**{row.verdict}**: {row.reason}"


def _weak(row: Probe) -> str:
    """Sentences that say the same of several nulls, said once."""
    grouped: dict[str, list[str]] = {}
    for words in row.weaknesses:
        null, what, rest = words.partition(" would pass ")
        grouped.setdefault(what + rest, []).append(null)
    return "; ".join(", ".join(nulls) + rest for rest, nulls in grouped.items()) or "nothing passes"


def _told(report: Mapping[str, Any] | None) -> str:
    if report is None:
        return ""
    at = f" at {report['at']:g}" if report.get("at") else ""
    return f"{report['says']}{at} ({report['source']})"

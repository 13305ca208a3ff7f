"""Judge problems before candidates: which references would accept an answer that was not computed?

Every reference runs in a process of its own, by the code that judges candidates. That code tries nulls (zeros, a
constant, the answer to other inputs, ...) under our error budgets and under KernelBench's fixed tolerance.
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

from egg_graph.bench.provenance import Provenance, current_provenance
from egg_graph.bench.trust.probe_process import JUDGED
from egg_graph.bench.writing import markdown_table, read_earlier, write_results
from egg_graph.evaluator import environment
from egg_graph.evaluator.device.detect import visible_gpus
from egg_graph.evaluator.host.environment import clean_environment
from egg_graph.schema import BadInput, Precision, Value

SECONDS = 120.0
"""Default limit for one problem [s]."""
GIB = float(1 << 30)
LONGEST_MESSAGE = 300
"""Characters kept of a failed process's last line."""
Reports = Mapping[str, Mapping[str, Any]]
"""By a problem's short name, what others have reported: `says`, `source`, and `at`, the tolerance."""


class Probe(Value):
    """The verdict on one problem."""

    problem: str
    """`level2/80_Gemm_Max_Subtract_GELU`: folder and file."""
    verdict: Literal["evaluable", "unevaluable", "not probed"]
    reason: str = ""
    """Why the problem is not evaluable, or was not probed."""
    weaknesses: tuple[str, ...] = ()
    """Nulls that would pass KernelBench's fixed tolerance, and inputs or weights that do not matter even to us."""
    families: tuple[str, ...] = ()
    """Input families that candidates are judged on."""
    dropped: dict[str, dict[str, str]] = {}
    """By shape: families on which PyTorch itself gives nothing to judge by, with the reason."""
    full_shape: str = ""
    """`judged`, or why the reference's own shape was not; empty where that was not tried, as without a GPU."""
    peak_bytes: int | None = None
    """Most GPU memory that PyTorch held in the problem's process; None without a GPU."""
    seconds: float = 0.0

    @property
    def short(self) -> str:
        """Short name, as benchmarks are cited: `L2/80`."""
        folder, _, file = self.problem.partition("/")
        return f"L{folder.removeprefix('level')}/{file.split('_')[0]}"


class ProbeResults(Value):
    """The problems of one run."""

    terms: Provenance
    precision: Precision
    asked: int = 0
    """Number of problems in the suite; a run that was stopped has fewer rows."""
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
        device: `gpu` runs the references on the GPU, also at their own shapes, where the fixed tolerance is tried if
            memory allows; `none` on the CPU, mostly at reduced shapes.
        precision: policy under which candidates would be judged.
        workers: processes at a time, assigned in turns to the GPUs there are.
        seconds: limit for one problem, what it waits for others included; one that takes longer is `not probed`.
        reported: TOML file of what others have reported about these problems, for the page.
        keep: keep the rows that `out` has, and probe the rest; what was not probed is tried again.
        on_probe: called with each result as it comes, from any thread.

    Raises:
        BadInput: if `reported` cannot be read or `out` not be written.
    """
    reports = _read_reports(reported)
    provenance = current_provenance(environment(use_gpu=device == "gpu"))
    results = ProbeResults(terms=provenance, precision=precision, asked=len(references))
    kept: dict[str, Probe] = {}
    if keep and out is not None:
        same = {"terms": {"evaluator", "environment"}, "precision": True}
        kept = {row.problem: row for row in read_earlier(out, results, same).rows if row.verdict != "not probed"}
    gpus = itertools.cycle(visible_gpus() if device == "gpu" else ())

    def one(reference: Path) -> Probe:
        if (name := _name(reference)) in kept:
            return kept[name]
        probe = _probe(reference, next(gpus, None), precision, seconds)
        if on_probe is not None:
            on_probe(probe)
        return probe

    with ThreadPoolExecutor(workers) as pool:
        for row in pool.map(one, references):
            results = results.model_copy(update={"rows": (*results.rows, row)})
            if out is not None:
                write_results(out, results, probe_page(results, reports), summary=_summary(results))
    return results


def _read_reports(path: Path | None) -> Reports:
    if path is None:
        return {}
    try:
        return dict(tomllib.loads(path.read_text(encoding="utf-8"))["problem"])
    except (OSError, KeyError, tomllib.TOMLDecodeError) as error:
        raise BadInput(f"{path}: cannot be read as reports; a TOML table [problem] is wanted ({error})") from error


def _name(reference: Path) -> str:
    return f"{reference.parent.name}/{reference.stem}"


def _probe(reference: Path, gpu: str | None, precision: Precision, seconds: float) -> Probe:
    """Judge one problem in a process of its own, on the GPU of this UUID or on the CPU."""
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
        last = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        return Probe(problem=name, verdict="not probed", reason=last[0][:LONGEST_MESSAGE], seconds=took)
    return Probe(problem=name, seconds=took, **json.loads(done.stdout.strip().splitlines()[-1]))


def _summary(results: ProbeResults) -> dict[str, int]:
    return {
        "problems": len(results.rows),
        "unevaluable": sum(row.verdict == "unevaluable" for row in results.rows),
        "not_probed": sum(row.verdict == "not probed" for row in results.rows),
        "weak_at_fixed_tolerance": sum(bool(row.weaknesses) for row in results.rows),
        "judged_at_full_shape": sum(row.full_shape == JUDGED for row in results.rows),
        "do_not_fit": sum(row.full_shape not in ("", JUDGED) for row in results.rows),
    }


def probe_page(results: ProbeResults, reports: Reports) -> str:
    """A Markdown page of the problems that are not plainly sound, beside what others have reported."""
    count = _summary(results)
    shown = [row for row in results.rows if row.verdict != "evaluable" or row.weaknesses or row.short in reports]
    rows = [(row.problem, _verdict(row), _weak(row), _reported(reports.get(row.short))) for row in shown]
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
            *markdown_table(("problem", "with our budgets", "with a fixed tolerance", "reported elsewhere"), rows),
            "",
            *_full_shapes(results),
        ]
    )


def _full_shapes(results: ProbeResults) -> list[str]:
    """Memory and seconds of each problem at its own shape; nothing without a GPU."""
    rows = sorted((row for row in results.rows if row.peak_bytes is not None), key=lambda r: -(r.peak_bytes or 0))
    if not rows:
        return []
    count, largest = _summary(results), (rows[0].peak_bytes or 0) / GIB
    cells = [
        (row.problem, row.full_shape or row.verdict, f"{(row.peak_bytes or 0) / GIB:.1f}", f"{row.seconds:.1f}")
        for row in rows
    ]
    return [
        "## At their own shapes",
        "",
        f"{count['judged_at_full_shape']} problems have inputs and an answer that can be judged at their own shape, "
        f"{count['do_not_fit']} do not fit; largest peak of one problem {largest:.1f} GiB. Memory is what PyTorch held "
        "in the problem's process; seconds are from the start of that process, with what it waited for the others.",
        "",
        *markdown_table(("problem", "full shape", "peak [GiB]", "seconds"), cells),
        "",
    ]


def _verdict(row: Probe) -> str:
    return row.verdict if not row.reason else f"**{row.verdict}**: {row.reason}"


def _weak(row: Probe) -> str:
    """The weaknesses; what holds of several nulls is said once."""
    grouped: dict[str, list[str]] = {}
    for weakness in row.weaknesses:
        null, what, rest = weakness.partition(" would pass ")
        grouped.setdefault(what + rest, []).append(null)
    return "; ".join(", ".join(nulls) + rest for rest, nulls in grouped.items()) or "nothing passes"


def _reported(report: Mapping[str, Any] | None) -> str:
    if report is None:
        return ""
    at = f" at {report['at']:g}" if report.get("at") else ""
    return f"{report['says']}{at} ({report['source']})"

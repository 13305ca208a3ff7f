"""Time one evaluation, cold and warm, rung by rung, beside KernelBench's own evaluation of the same kernel."""

import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

from egg_graph.bench.provenance import Provenance, current_provenance
from egg_graph.bench.writing import markdown_table, write_results
from egg_graph.context import Device
from egg_graph.evaluator import LocalEvaluator
from egg_graph.schema import Candidate, Evaluation, KernelTask, Precision, Value

KERNELBENCH_SECONDS = 900
"""Limit for one process of KernelBench [s]."""
KERNELBENCH_PRECISION: dict[Precision, str] = {
    "ieee": "fp32",
    "tf32": "fp32",
    "tf32_truncated": "fp32",
    "bf16": "bf16",
    "fp16": "fp16",
}
NO_ARGUMENTS = "\n\ndef get_init_inputs():\n    return []\n"
"""Added to a reference without it: KernelBench requires this function, we do not."""
PROGRAM = Path(__file__).with_name("kernelbench_process.py")
"""Lets KernelBench judge."""


class KernelBenchCost(Value):
    """KernelBench's evaluation of the same kernel, in a process of its own, with the settings of its own scripts."""

    not_measured: str = ""
    """Reason why there are no figures; empty if there are figures."""
    cold_seconds: float | None = None
    """One evaluation from the process's start to its end, imports included."""
    first_seconds: float | None = None
    """The first call of `eval_kernel_against_ref`, without imports."""
    warm_seconds: tuple[float, ...] = ()
    """Further calls in the same process."""
    compiled: bool | None = None
    correct: bool | None = None
    runtime: float | None = None
    """The kernel's run time as KernelBench reports it [ms]."""
    stand_ins: tuple[str, ...] = ()
    """Modules that were not installed and were replaced by empty ones; the evaluation does not use them."""


class CostResults(Value):
    """Seconds of our evaluation and of KernelBench's."""

    terms: Provenance
    reference: str
    candidate: str
    precision: str
    status: str
    start_seconds: float | None = None
    """Start of a fresh evaluator, until it knows its machine."""
    baseline_seconds: float | None = None
    """Runs of the reference, made once for each task."""
    cold_seconds: float
    """First evaluation by a fresh evaluator: its start, the runs of the reference and all rungs."""
    warm_seconds: tuple[float, ...]
    """Further evaluations of the same kernel by the same evaluator."""
    cold_rungs: dict[str, float]
    """Seconds by rung of the cold evaluation."""
    warm_rungs: dict[str, float]
    """Seconds by rung of the last warm evaluation."""
    kernelbench: KernelBenchCost

    @property
    def cold_overhead(self) -> float | None:
        """Our cold seconds over theirs."""
        theirs = self.kernelbench.cold_seconds
        return self.cold_seconds / theirs if theirs else None

    @property
    def warm_overhead(self) -> float | None:
        """Our warm seconds over theirs, both as medians."""
        theirs = self.kernelbench.warm_seconds
        return median(self.warm_seconds) / median(theirs) if theirs and self.warm_seconds else None


def run_cost(
    task: KernelTask,
    candidate: Candidate,
    name: str,
    out: Path | None = None,
    *,
    device: Device = "auto",
    warm: int = 3,
    kernelbench: Path | None = None,
) -> CostResults:
    """Time our evaluation cold and warm, and KernelBench's where a checkout is named.

    KernelBench runs a candidate without confinement, so it gets one only after our evaluator found it right.

    Args:
        task: the task that the kernel is judged on.
        candidate: the kernel.
        name: name of its file.
        out: results file.
        device: where to judge.
        warm: number of warm evaluations.
        kernelbench: a checkout of KernelBench, or None.
    """
    provenance = current_provenance()
    begun = time.monotonic()
    with LocalEvaluator(device=device) as local:
        local.environment()
        start_seconds = time.monotonic() - begun
        local.baseline(task)
        baseline_seconds = time.monotonic() - begun - start_seconds
        cold = local.evaluate(task, candidate)
        cold_seconds = time.monotonic() - begun
        seconds: list[float] = []
        last = cold
        for _ in range(warm):
            begun = time.monotonic()
            last = local.evaluate(task, candidate)
            seconds.append(time.monotonic() - begun)
    results = CostResults(
        terms=provenance.model_copy(update={"environment": cold.environment}),
        reference=task.name,
        candidate=name,
        precision=task.precision,
        status=cold.status,
        start_seconds=start_seconds,
        baseline_seconds=baseline_seconds,
        cold_seconds=cold_seconds,
        warm_seconds=tuple(seconds),
        cold_rungs=_rungs(cold),
        warm_rungs=_rungs(last) if warm else {},
        kernelbench=_kernelbench(task, candidate, cold, kernelbench, warm),
    )
    if out is not None:
        overheads = {"cold_overhead": results.cold_overhead, "warm_overhead": results.warm_overhead}
        write_results(out, results, cost_page(results), summary=overheads)
    return results


def cost_page(results: CostResults) -> str:
    """The seconds as a Markdown page."""
    theirs = results.kernelbench
    rows = [
        ("cold", f"{results.cold_seconds:.1f}", _seconds(theirs.cold_seconds), _ratio(results.cold_overhead)),
        (
            "warm, median",
            _seconds(median(results.warm_seconds) if results.warm_seconds else None),
            _seconds(median(theirs.warm_seconds) if theirs.warm_seconds else None),
            _ratio(results.warm_overhead),
        ),
    ]
    names = [*results.cold_rungs, *(name for name in results.warm_rungs if name not in results.cold_rungs)]
    rungs = [(name, _seconds(results.cold_rungs.get(name)), _seconds(results.warm_rungs.get(name))) for name in names]
    lines = [f"# cost of judging {results.candidate} for {results.reference}", ""]
    lines += [f"{results.terms.line} Precision {results.precision}; verdict `{results.status}`.", ""]
    lines += markdown_table(("seconds", "egg-graph", "KernelBench", "ratio"), rows)
    lines += [
        "",
        *_cold_parts(results),
        _kernelbench_line(theirs),
        "",
        *markdown_table(("rung", "cold [s]", "warm [s]"), rungs),
    ]
    return "\n".join(lines) + "\n"


def _cold_parts(results: CostResults) -> list[str]:
    """The parts of a cold evaluation, where they were measured."""
    start, baseline = results.start_seconds, results.baseline_seconds
    if start is None or baseline is None:
        return []
    line = (
        f"Of the cold evaluation {start:.1f} s are its start, {baseline:.1f} s the reference's own runs (PyTorch eager "
        f"and torch.compile measured), {results.cold_seconds - start - baseline:.1f} s the kernel's."
    )
    return [line, ""]


def _kernelbench_line(theirs: KernelBenchCost) -> str:
    if theirs.not_measured:
        return f"KernelBench: not measured: {theirs.not_measured}."
    stand_ins = f" Empty stand-ins for {', '.join(theirs.stand_ins)}." if theirs.stand_ins else ""
    return (
        "KernelBench: `eval_kernel_against_ref`, backend triton, 5 correctness and 100 performance trials, a process "
        f"of its own; compiled: {theirs.compiled}, correct: {theirs.correct}.{stand_ins} Cold is from its process's "
        "start to its end."
    )


def _kernelbench(
    task: KernelTask, candidate: Candidate, ours: Evaluation, checkout: Path | None, warm: int
) -> KernelBenchCost:
    if checkout is None:
        return KernelBenchCost(not_measured="no checkout was named")
    if not ours.usable:
        return KernelBenchCost(not_measured=f"our verdict is {ours.status}, and KernelBench would run it unconfined")
    cold = _kernelbench_process(task, candidate, checkout, 0)
    if cold.not_measured or not warm:
        return cold
    again = _kernelbench_process(task, candidate, checkout, warm)
    return cold.model_copy(update={"warm_seconds": again.warm_seconds, "not_measured": again.not_measured})


def _kernelbench_process(task: KernelTask, candidate: Candidate, checkout: Path, warm: int) -> KernelBenchCost:
    request = {
        "checkout": str(checkout.absolute()),
        **both_sources(task.reference, candidate.source),
        "precision": KERNELBENCH_PRECISION[task.precision],
        "warm": warm,
    }
    command = [sys.executable, str(PROGRAM)]
    begun = time.monotonic()
    try:
        done = subprocess.run(
            command,
            input=json.dumps(request),
            capture_output=True,
            text=True,
            timeout=KERNELBENCH_SECONDS,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            check=False,
        )
    except subprocess.TimeoutExpired:
        return KernelBenchCost(not_measured=f"it was not done within {KERNELBENCH_SECONDS} s")
    cold = time.monotonic() - begun
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        output = (done.stderr or done.stdout).strip().splitlines()
        return KernelBenchCost(not_measured=f"it failed: {output[-1][:300] if output else 'without a word'}")
    answer: dict[str, Any] = json.loads(lines[-1])
    return KernelBenchCost(cold_seconds=cold, **answer)


def both_sources(reference: str, candidate: str) -> dict[str, str]:
    """The part of a request to KernelBench's process that names a kernel."""
    return {
        "reference": reference + (NO_ARGUMENTS if "def get_init_inputs" not in reference else ""),
        "candidate": candidate,
    }


def _rungs(evaluation: Evaluation) -> dict[str, float]:
    """Seconds by rung; rungs of one name are added up."""
    seconds: dict[str, float] = defaultdict(float)
    for rung in evaluation.rungs:
        seconds[rung.name] += rung.seconds
    return dict(seconds)


def _seconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.2f}"


def _ratio(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}"

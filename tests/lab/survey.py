"""Time the kernels that the embedded expert writes for references, over the values of their knobs, beside PyTorch.

Two steps for each reference: write its modules, one for every structure of every group; time them in a process of its
own on one GPU (`survey_process`). The page tells what the present rules of convolutions would make of these times.
"""

import json
import math
import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from egg_graph.bench.provenance import Provenance, current_provenance
from egg_graph.bench.writing import markdown_table, read_earlier, read_results, write_results
from egg_graph.cli.files import read_task
from egg_graph.evaluator import environment
from egg_graph.expert.capture.errors import CannotCapture
from egg_graph.expert.capture.graph import CapturedGraph
from egg_graph.expert.capture.process import capture_graph
from egg_graph.expert.codegen.module import write_module
from egg_graph.expert.playbooks.convolution import tiles
from egg_graph.expert.playbooks.convolution.match import convolution_at
from egg_graph.expert.playbooks.convolution.playbook import shape_of
from egg_graph.expert.playbooks.planner import make_plan, plan_seed, write_kernels
from egg_graph.expert.playbooks.registry import playbooks, playbooks_by_name
from egg_graph.schema import BadInput, InfrastructureError, KernelTask, Knob, Precision, Value
from egg_graph.tuning.literals import read_knobs
from tests.lab.full_size import name_of

PROCESS_SECONDS = 600.0
"""Most seconds for one reference."""
STATISTIC = "median of calls timed by CUDA events, after one that warms up, the L2 flushed before each"
WEIGHTS = {"convolution_num_stages": 0.3, "convolution_GROUP_M": 0.05}
"""What a factor of two in a knob counts, 1 for others, when the nearest measured configuration is looked for."""


class KernelTimes(Value):
    """One module's times."""

    structure: str
    """`planes` and the like; of a convolution of few channels `flat`."""
    knobs: tuple[str, ...]
    times: dict[str, float]
    """By the knobs' values, in their order with blanks between [ms]; first those that the expert began with."""

    @property
    def begun(self) -> float:
        """The time that the expert began with [ms]."""
        return next(iter(self.times.values()))

    @property
    def best(self) -> float:
        """The least time [ms]."""
        return min(self.times.values())

    def nearest(self, config: Mapping[str, Knob]) -> tuple[float, bool]:
        """The time of the measured configuration nearest to one [ms], and whether it is that one but for weak knobs."""

        def distance(key: str) -> float:
            values = {k: v for k, v in zip(self.knobs, key.split(), strict=True) if k in config}
            return sum(WEIGHTS.get(k, 1.0) * abs(math.log2(int(v) / int(config[k]))) for k, v in values.items())

        key = min(self.times, key=distance)
        return self.times[key], distance(key) <= WEIGHTS["convolution_GROUP_M"]


class SurveyRow(Value):
    """One reference."""

    problem: str
    pytorch: dict[str, float] = {}
    """`eager`, `compile`, and eager with PyTorch's switches turned, by their names [ms]."""
    convolution: dict[str, Any] | None = None
    """The shape of its only convolution, in the fields of `tiles.Shape`; None where that is depthwise, or not one."""
    kernels: dict[str, KernelTimes] = {}
    """By structure of one group, `seed` for the expert's first choice."""
    failed: dict[str, str] = {}
    """By the same names, or `reference`: why there are no times."""

    @property
    def base(self) -> float:
        """The faster of PyTorch's forwards as they come [ms]."""
        return min(self.pytorch[name] for name in ("eager", "compile") if name in self.pytorch)

    @property
    def best(self) -> float:
        """The least time of all kernels [ms]."""
        return min(times.best for times in self.kernels.values())

    @property
    def tuned(self) -> float:
        """The fastest of PyTorch's forwards, its switches included [ms]."""
        return min(self.pytorch.values())


class SurveyResults(Value):
    """References surveyed."""

    terms: Provenance
    precision: Precision
    repeats: int
    statistic: str = STATISTIC
    remarks: tuple[str, ...] = ()
    """What else to know of how it was measured."""
    rows: tuple[SurveyRow, ...] = ()


def run_survey(
    references: Sequence[Path],
    out: Path | None = None,
    *,
    precision: Precision = "tf32",
    repeats: int = 9,
    compiled: bool = False,
    switches: bool = False,
    keep: bool = False,
    workers: int = 1,
    gpus: int = 1,
    on_row: Callable[[SurveyRow], None] | None = None,
) -> SurveyResults:
    """Write and time the expert's kernels for each reference.

    Args:
        references: files in KernelBench's form.
        out: results file, rewritten after every reference.
        precision: the policy.
        repeats: calls of which the median is taken.
        compiled: time `torch.compile` too.
        switches: time eager convolutions with `cudnn.benchmark` and channels-last weights too.
        keep: keep the rows that `out` has, and survey the rest.
        workers: references at work at once; on each GPU one call at a time is timed.
        gpus: GPUs of this host to deal them over.
        on_row: called with each row as it comes.
    """
    remarks = (f"{workers} references were at work at once on {gpus} GPUs.",) if workers > 1 else ()
    results = SurveyResults(
        terms=current_provenance(environment()), precision=precision, repeats=repeats, remarks=remarks
    )
    if keep and out is not None:
        results = read_earlier(out, results, {"terms": {"environment"}, "precision": True, "repeats": True})
    done = {row.problem for row in results.rows}
    left = [reference for reference in references if name_of(reference) not in done]
    terms = {"repeats": repeats, "compile": compiled, "switches": switches}
    for row in _surveyed(left, precision, terms, workers, gpus):
        results = results.model_copy(update={"rows": (*results.rows, row)})
        if out is not None:
            write_survey(out, results)
        if on_row is not None:
            on_row(row)
    return results


def _surveyed(
    references: Sequence[Path], precision: Precision, terms: Mapping[str, Any], workers: int, gpus: int
) -> Iterator[SurveyRow]:
    """Yield a row for each reference as it is done."""
    if workers == 1:
        yield from (survey_one(reference, precision, terms) for reference in references)
        return
    context = multiprocessing.get_context("spawn")
    numbers = context.Queue()
    for worker in range(workers):
        numbers.put(worker % gpus)
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_take_gpu, initargs=(numbers,)) as pool:
        jobs = [pool.submit(survey_one, reference, precision, terms) for reference in references]
        yield from (job.result() for job in as_completed(jobs))


def _take_gpu(numbers: "multiprocessing.Queue[int]") -> None:
    """Give this worker, and the processes that it starts, one GPU of the host."""
    os.environ["CUDA_VISIBLE_DEVICES"] = str(numbers.get())


def survey_one(reference: Path, precision: Precision, terms: Mapping[str, Any]) -> SurveyRow:
    """Write the modules for one reference, and time them in a process of its own."""
    row = SurveyRow(problem=name_of(reference))
    try:
        task = read_task(reference, precision)
        graph = capture_graph(task)
        modules = write_modules(task, graph)
    except (BadInput, CannotCapture, InfrastructureError) as error:
        return row.model_copy(update={"failed": {"reference": f"{type(error).__name__}: {error}"}})
    row = row.model_copy(update={"convolution": convolution_of(graph)})
    with tempfile.TemporaryDirectory() as folder:
        kernels = {}
        for label, (source, _) in modules.items():
            path = Path(folder, f"{label.replace('=', '_')}.py")
            path.write_text(source, encoding="utf-8")
            kernels[label] = {"source": str(path), "space": read_knobs(source).space}
        request = {**terms, "precision": precision, "reference": str(reference.absolute()), "kernels": kernels}
        answer = ask(request)
    return row.model_copy(
        update={
            "pytorch": answer["pytorch"],
            "failed": answer["failed"],
            "kernels": {label: times_of(modules[label][1], times) for label, times in answer["kernels"].items()},
        }
    )


def write_modules(task: KernelTask, graph: CapturedGraph) -> dict[str, tuple[str, str]]:
    """Write the expert's first choice, `seed`, and one module for every other structure of a group.

    Returns:
        Source and structure, that of the convolution if there is one alone, else those of all groups.
    """
    known = playbooks_by_name()
    seed = plan_seed(graph, playbooks(), task.precision, task.target)
    chosen = {name: group.variant for name, group in seed.groups.items()}
    plans = {"seed": seed}
    for name, group in seed.groups.items():
        for variant in known[group.playbook].structures(graph, group, task.target):
            if variant != group.variant:
                plans[f"{name}={variant}"] = make_plan(graph, playbooks(), {**chosen, name: variant}, seed.dropped)
    shape = convolution_of(graph)
    modules: dict[str, tuple[str, str]] = {}
    for label, plan in plans.items():
        source = write_module(task.reference, plan, write_kernels(plan, playbooks(), task.precision, task.target), {})
        structure = " ".join(filter(None, (group.variant for group in plan.groups.values())))
        if shape is not None and "convolution" in plan.groups:
            structure = tiles.structure_for(tiles.Shape(**shape), plan.groups["convolution"].variant)
        modules[label] = (source, structure)
    return modules


def times_of(structure: str, times: Sequence[tuple[Mapping[str, Knob], float]]) -> KernelTimes:
    """One module's times, from configurations and times in the order of their measurement."""
    knobs = tuple(times[0][0])
    return KernelTimes(
        structure=structure,
        knobs=knobs,
        times={" ".join(str(config[knob]) for knob in knobs): milliseconds for config, milliseconds in times},
    )


def convolution_of(graph: CapturedGraph) -> dict[str, Any] | None:
    """The shape of a graph's only convolution, unless it is depthwise."""
    found = [c for node in graph.nodes if (c := convolution_at(graph, node.name)) is not None]
    return asdict(shape_of(graph, found[0])) if len(found) == 1 and not found[0].is_depthwise(graph) else None


def ask(request: Mapping[str, Any]) -> dict[str, Any]:
    """The last answer of `survey_process`; what it did not come to is missing in it."""
    answer: dict[str, Any] = {"pytorch": {}, "kernels": {}, "failed": {}}
    command = [sys.executable, "-m", "tests.lab.survey_process"]
    environment_ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    try:
        done = subprocess.run(
            command, input=json.dumps(request), capture_output=True, text=True, timeout=PROCESS_SECONDS,
            env=environment_, check=False,
        )  # fmt: skip
        output, problem = done.stdout, done.stderr.strip()[-300:] if done.returncode else ""
    except subprocess.TimeoutExpired as error:
        output = error.stdout.decode() if isinstance(error.stdout, bytes) else error.stdout or ""
        problem = f"it was not done within {PROCESS_SECONDS:.0f} s"
    lines = [line for line in output.splitlines() if line.startswith("{")]
    answer = json.loads(lines[-1]) if lines else answer
    return {**answer, "failed": {**answer["failed"], "reference": problem}} if problem else answer


def write_survey(out: Path, results: SurveyResults) -> None:
    """Write the results file and its page."""
    write_results(out, results, survey_page(results), summary=summary(results))


def read_survey(path: Path) -> SurveyResults:
    """Read a results file.

    Raises:
        BadInput: if it cannot be read.
    """
    try:
        return read_results(json.loads(path.with_suffix(".json").read_text(encoding="utf-8")), SurveyResults)
    except (OSError, ValueError) as error:
        raise BadInput(f"{path}: no survey can be read: {error}") from error


class Judged(Value):
    """What was measured of one module, beside what the present rules choose for it."""

    rule: int
    """Place in `tiles.RULES`."""
    first: bool
    """Whether the present rules choose this structure."""
    now: float
    """Time of the nearest measured configuration to that of the rule [ms]."""
    exact: bool
    begun: float
    best: float


def judged(row: SurveyRow) -> list[Judged]:
    """Hold a row's convolution against the present rules; empty where it has none alone, or was not swept."""
    if row.convolution is None:
        return []
    shape = tiles.Shape(**row.convolution)
    found = []
    for times in row.kernels.values():
        if len(times.times) < 2 or times.structure not in ("flat", "planes", "channels_last"):
            continue
        knobs = tiles.implicit_config(shape, times.structure)  # type: ignore[arg-type]
        config = {f"convolution_{knob}": value for knob, value in knobs.items()}
        now, exact = times.nearest(config)
        found.append(
            Judged(
                rule=tiles.RULES.index(tiles.rule_for(shape, times.structure)),  # type: ignore[arg-type]
                first=times.structure == tiles.structure_for(shape),
                now=now, exact=exact, begun=times.begun, best=times.best,
            )
        )  # fmt: skip
    return found


def summary(results: SurveyResults) -> dict[str, float | int]:
    """Geometric means over the references with one convolution that was swept, of PyTorch's time over the kernel's."""
    ratios: dict[str, list[float]] = defaultdict(list)
    for row in results.rows:
        found = judged(row)
        chosen = next((one for one in found if one.first), None)
        if chosen is None or "seed" not in row.kernels:
            continue
        ratios["begun"].append(row.base / row.kernels["seed"].begun)
        ratios["now"].append(row.base / chosen.now)
        ratios["best"].append(row.base / min(one.best for one in found))
    means = {name: geometric_mean(values) for name, values in ratios.items()}
    kept = {f"{name}_or_pytorch": geometric_mean(max(1.0, v) for v in values) for name, values in ratios.items()}
    return {"convolutions": len(ratios["now"]), **means, **kept}


def survey_page(results: SurveyResults) -> str:
    """The survey as a Markdown page."""
    told = summary(results)
    lines = [
        "# Survey of the expert's kernels",
        "",
        f"{results.terms.line} Precision {results.precision}; {results.repeats} calls, {results.statistic}.",
        *(("", *results.remarks) if results.remarks else ()),
        "",
        f"{len(results.rows)} references.",
    ]
    lines += _against_pytorch(results)
    if told["convolutions"]:
        lines += ["", "## Rules of convolutions", "", *_rules(results, told)]
    header = ("reference", "PyTorch [ms]", "kernel", "begun [ms]", "best [ms]", "best knobs")
    rows = [line for row in results.rows for line in _lines(row)]
    return "\n".join([*lines, "", "## References", "", *markdown_table(header, rows)]) + "\n"


def _against_pytorch(results: SurveyResults) -> list[str]:
    """PyTorch's time over the kernels', over the references where PyTorch's switches were turned."""
    rows = [row for row in results.rows if row.kernels and len(row.pytorch) > 2]
    if not rows:
        return []
    found = []
    for against in ("base", "tuned"):
        ratios = [
            (getattr(row, against) / row.kernels["seed"].begun, getattr(row, against) / row.best)
            for row in rows
            if "seed" in row.kernels
        ]
        begun, best = zip(*ratios, strict=True)
        kept = [geometric_mean(max(1.0, ratio) for ratio in side) for side in (begun, best)]
        names = {"base": "eager and torch.compile", "tuned": "these, cudnn.benchmark and channels_last"}
        found.append((names[against], *(f"{x:.2f}" for x in (geometric_mean(begun), geometric_mean(best), *kept))))
    header = ("against the fastest of", "begun", "best", "begun, PyTorch kept where faster", "best, likewise")
    return ["", f"{len(rows)} references with convolutions, geometric means:", "", *markdown_table(header, found)]


def _rules(results: SurveyResults, told: Mapping[str, float | int]) -> list[str]:
    by_rule: dict[int, list[Judged]] = defaultdict(list)
    for row in results.rows:
        for one in judged(row):
            by_rule[one.rule].append(one)
    rows = []
    for place, rule in enumerate(tiles.RULES):
        found = by_rule[place]
        knobs = " ".join(map(str, (rule.block_m, rule.block_n, rule.block_k, rule.num_warps, rule.num_stages)))
        ratios = ("-", "-")
        if found:
            gained, left = (geometric_mean(getattr(o, a) / o.now for o in found) for a in ("begun", "best"))
            ratios = (f"{gained:.2f}", f"{left:.2f}")
        rows.append((rule.text, knobs, f"{len(found)}", f"{sum(o.exact for o in found)}", *ratios))
    header = (
        "class of shapes",
        "BLOCK_M, most BLOCK_N, BLOCK_K, warps, stages",
        "modules",
        "measured",
        "gain",
        "of best",
    )
    return [
        f"{told['convolutions']} references with one convolution that was swept. PyTorch's time over the kernel's, "
        f"geometric means: {told['begun']:.2f} with the knobs and structures that the survey began with, "
        f"{told['now']:.2f} with those of the present rules, {told['best']:.2f} with the best of each; PyTorch kept "
        f"where it is faster: {told['begun_or_pytorch']:.2f}, {told['now_or_pytorch']:.2f}, "
        f"{told['best_or_pytorch']:.2f}. The rules were fitted to what they are held against here, and the best of "
        "some ten noisy times lies below the truth. Where a rule's knobs were not measured (measured: on how many they "
        "were), the nearest that were stand for them. Gain: time begun with over time now. Of best: best time over "
        "time now.",
        "",
        *markdown_table(header, rows),
    ]  # fmt: skip


def _lines(row: SurveyRow) -> list[tuple[str, ...]]:
    base = f"{row.base:.3f}" if row.pytorch else "-"
    failed = [(row.problem, base, label, why, "-", "-") for label, why in row.failed.items()]
    found = []
    for label, times in row.kernels.items():
        begun, key = (key.split() for key in (next(iter(times.times)), min(times.times, key=times.times.__getitem__)))
        changed = [f"{k} {v}" for k, b, v in zip(times.knobs, begun, key, strict=True) if v != b]
        knobs = ", ".join(changed) or "as begun"
        kernel = f"{label}: {times.structure}" if times.structure else label
        found.append((row.problem, base, kernel, f"{times.begun:.3f}", f"{times.best:.3f}", knobs))
    return [*found, *failed]

"""Time warm evaluations: what one more kernel costs an evaluator that knows the task already.

The kernel is the embedded expert's first one. Each evaluation gets another text and another constant of the compiler in
every kernel, so that nothing compiled or found out for the one before serves the next.
"""

import ast
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from egg_graph.bench.provenance import Provenance, current_provenance
from egg_graph.bench.writing import markdown_table, write_results
from egg_graph.context import Device
from egg_graph.evaluator import LocalEvaluator
from egg_graph.schema import BadInput, Candidate, KernelTask, Value
from egg_graph.schema.syntax import syntax_tree
from tests.lab.first_kernel import first_kernel


class WarmRow(Value):
    """The warm evaluations of one task."""

    task: str
    status: str
    seconds: tuple[float, ...]
    """Each evaluation, by the wall clock of who asked."""
    rungs: dict[str, float]
    """Seconds by rung of the last one; rungs overlap."""

    @property
    def median(self) -> float:
        """Median of the seconds."""
        return median(self.seconds)


class WarmResults(Value):
    """All tasks."""

    terms: Provenance
    rows: tuple[WarmRow, ...]

    @property
    def median(self) -> float:
        """Median over the tasks of their medians [s]."""
        return median(row.median for row in self.rows)


def run_warm(
    tasks: Sequence[KernelTask],
    out: Path | None = None,
    *,
    device: Device = "auto",
    repeats: int = 5,
) -> WarmResults:
    """Evaluate the expert's kernel of each task `repeats` times with an evaluator that has judged it once before.

    Raises:
        BadInput: if the expert has no kernel for a task.
    """
    terms, rows = current_provenance(), []
    for task in tasks:
        with LocalEvaluator(device=device) as local:
            kernel = first_kernel(task, local.baseline(task))
            if kernel is None:
                raise BadInput(f"{task.name}: the embedded expert has no kernel for it; name other references")
            local.evaluate(task, _varied(kernel, 0))
            seconds = []
            for turn in range(1, repeats + 1):
                candidate, begun = _varied(kernel, turn), time.monotonic()
                evaluation = local.evaluate(task, candidate)
                seconds.append(time.monotonic() - begun)
        terms = terms.model_copy(update={"environment": evaluation.environment})
        rungs: dict[str, float] = {}
        for rung in evaluation.rungs:
            rungs[rung.name] = rungs.get(rung.name, 0.0) + rung.seconds
        rows.append(WarmRow(task=task.name, status=evaluation.status, seconds=tuple(seconds), rungs=rungs))
    results = WarmResults(terms=terms, rows=tuple(rows))
    if out is not None:
        write_results(out, results, warm_page(results), summary={"median_seconds": results.median})
    return results


def warm_page(results: WarmResults) -> str:
    """The page of the results."""
    table = [
        [row.task, row.status, f"{row.median:.2f}", f"{min(row.seconds):.2f}", f"{max(row.seconds):.2f}"]
        for row in sorted(results.rows, key=lambda row: row.median)
    ]
    lines = [
        "# What one more kernel costs",
        "",
        results.terms.line,
        f"Warm evaluations of the embedded expert's first kernel of each task, {len(results.rows[0].seconds)} each, by "
        "an evaluator that has judged one before; each with another text and another compiler's constant in every "
        "kernel.",
        "",
        f"Median of the {len(results.rows)} medians: **{results.median:.2f} s**.",
        "",
        *markdown_table(["task", "verdict", "median [s]", "fastest [s]", "slowest [s]"], table),
    ]
    return "\n".join(lines) + "\n"


def _varied(kernel: Candidate, turn: int) -> Candidate:
    """The same kernel with another text and another constant of the compiler."""
    tree = syntax_tree(kernel.source)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and any("jit" in ast.unparse(one) for one in node.decorator_list):
            node.args.args.append(ast.arg("TURN", ast.Attribute(ast.Name("tl"), "constexpr")))
            node.args.defaults.append(ast.Constant(turn))
    return kernel.model_copy(update={"source": ast.unparse(tree)})

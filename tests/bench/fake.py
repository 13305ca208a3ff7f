"""Team and evaluator by script for the workers of a bench, which are real processes.

Every call of the evaluator is logged when it begins, to the file in `FAKE_BENCH_LOG`. How fast a kernel is depends on
the problem's name alone, so that two benches of the same problems end alike.
"""

import os
from pathlib import Path
from typing import Any

from egg_graph.schema import Baseline, Candidate, Evaluation, KernelTask, Tolerance
from tests.graph.scripted import REFERENCE, ScriptedEvaluator, StatelessTeam, kernel

LOG = "FAKE_BENCH_LOG"
SCRIPT = [kernel("bad", 1), kernel("timed", 2)]


class FakeEvaluator(ScriptedEvaluator):
    """Times of a kernel are the script's, over a factor of the problem's name.

    Every kernel of a problem whose name begins with `kept` is wrong, and of one with `defect` there is no baseline.
    """

    def baseline(self, task: KernelTask) -> Baseline:
        note(task, "baseline")
        if task.name.startswith("defect"):
            raise ZeroDivisionError("nobody meant this")
        figures = {"eager_ms": 4.0, "compile_ms": 4.4, "eager_fp32_ms": 8.0, "flops": 1e9, "compulsory_bytes": 1e7}
        return super().baseline(task).model_copy(update=figures)

    def evaluate(self, task: KernelTask, candidate: Candidate, **options: Any) -> Evaluation:
        note(task, f"{'finalist' if options.get('finalist') else 'evaluate'} {candidate.id}")
        if task.name.startswith("kept"):
            candidate = candidate.model_copy(update={"source": kernel("bad")})
        found = super().evaluate(task, candidate, **options)
        if found.timing is None:
            return found
        factor = 1 + (sum(map(ord, task.name)) % 7) / 4
        ratio = found.timing.ratio * factor
        times = {"candidate_ms": found.timing.candidate_ms / factor, "compile_ms": 4.4, "eager_fp32_ms": 8.0}
        ratios = {"ratio": ratio, "ratio_low": 0.98 * ratio, "ratio_high": 1.02 * ratio}
        criterion = Tolerance(tolerance=1e-4, passed=True, max_difference=1e-6)
        timing = found.timing.model_copy(update=times | ratios)
        return found.model_copy(update={"timing": timing, "kernelbench": criterion, "seed": 7})


def note(task: KernelTask, what: str) -> None:
    """Log a call that begins."""
    if LOG in os.environ:
        with Path(os.environ[LOG]).open("a") as file:
            file.write(f"{task.name} {what}\n")


def parts(gpu: str | None) -> dict[str, Any]:
    """What `optimize` is given beside a problem."""
    return {"team": StatelessTeam(SCRIPT, worth=(True,)), "evaluator": FakeEvaluator()}


def write_suite(folder: Path, *names: str) -> Path:
    """A folder with a reference of each name."""
    folder.mkdir(parents=True)
    for name in names:
        (folder / f"{name}.py").write_text(f"{REFERENCE}# {name}\n")
    return folder

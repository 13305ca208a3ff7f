"""A team and an evaluator that follow a script, whose answers weigh as much as real ones.

`saved/attempt_no_gpu.json` is the attempt of a real run: examples/softmax.py, written by the embedded expert and judged
without a GPU. An evaluation on a GPU is that one with what the GPU's ladder adds, each part at its largest.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from egg_graph.schema import (
    Analysis,
    Attempt,
    Brief,
    Candidate,
    Clock,
    Evaluation,
    GpuState,
    KernelTask,
    Metric,
    Profile,
    StageName,
    Timing,
    Trial,
)
from egg_graph.schema.metrics import STAGE_METRICS
from tests.graph.scripted import ScriptedEvaluator, StatelessTeam

Evidence = Literal["no gpu", "gpu"]
PAIRS = 120
"""Most pairs of calls that the evaluator times."""
ATTEMPT = Attempt.model_validate(json.loads((Path(__file__).parent / "saved" / "attempt_no_gpu.json").read_text()))
ROOT_CAUSE = "each row is read twice from DRAM, since a row of 32000 logits does not stay in one program's registers; "
PLAN = "keep the row in registers over both passes, and write it once; "


def sources(count: int) -> list[str]:
    """Kernels of the recorded size, each another text. Every second one is better than all before it."""
    numbers = [count - n if n % 2 == 0 else count - n + 1.5 for n in range(count)]
    return [f"# ok {number}\n# kernel {n}\n{ATTEMPT.candidate.source}" for n, number in enumerate(numbers)]


class RecordedTeam(StatelessTeam):
    """Writes kernels of the recorded size, with plans of a few sentences."""

    def __init__(self, attempts: int) -> None:
        super().__init__(sources(attempts))

    def analyze(self, brief: Brief) -> Analysis:
        analysis = super().analyze(brief)
        return analysis.model_copy(update={"root_cause": 3 * ROOT_CAUSE, "plan": f"{analysis.plan}: {4 * PLAN}"})


class RecordedEvaluator(ScriptedEvaluator):
    """Gives the recorded evaluation for every kernel, with the number of its first line as its milliseconds."""

    def __init__(self, evidence: Evidence) -> None:
        super().__init__()
        self.evidence = evidence

    def evaluate(
        self, task: KernelTask, candidate: Candidate, *, stage: StageName | None = None, finalist: bool = False
    ) -> Evaluation:
        number = float(candidate.source.split(maxsplit=3)[2])
        recorded = ATTEMPT.evaluation
        assert recorded.bound is not None
        update = {
            "candidate": candidate.id,
            "task": task.digest,
            "bound": recorded.bound.model_copy(update={"milliseconds": number}),
        }
        if self.evidence == "gpu":
            update |= {"status": "faster", "timing": timing(number), "profile": profile(stage or candidate.stage)}
        return recorded.model_copy(update=update)

    def screen(self, task: KernelTask, candidates: Sequence[Candidate]) -> tuple[Trial, ...]:
        return tuple(Trial(config=c.config, status="correct", merit=(2.0,)) for c in candidates)


def timing(milliseconds: float) -> Timing:
    """A measurement with every call recorded, as of a kernel three times as fast as PyTorch."""
    calls = tuple(milliseconds * (1 + n / 7e4) for n in range(PAIRS))
    state = GpuState(
        sm_clock_mhz=1980.0,
        memory_clock_mhz=3201.0,
        temperature_c=41.0,
        power_w=421.37,
        utilisation_percent=0.0,
        other_processes=0,
    )
    return Timing(
        candidate_ms=milliseconds,
        eager_ms=3 * milliseconds,
        compile_ms=2.9 * milliseconds,
        eager_fp32_ms=3 * milliseconds,
        baseline="compile",
        ratio=2.9,
        ratio_low=2.8916,
        ratio_high=2.9219,
        pairs=PAIRS,
        block=8,
        candidate_calls_ms=calls,
        baseline_calls_ms=tuple(2.9 * call for call in calls),
        clocks=tuple(
            Clock(name=name, milliseconds=milliseconds / 7, noise_ms=1e-3 / 7) for name in ("events", "device", "host")
        ),
        checked_calls=40,
        before=state,
        after=state,
    )


def profile(stage: StageName) -> Profile:
    """Every metric of the stage, with a value."""
    metrics = {name: Metric(value=1e9 / 7, unit="byte/second") for name in STAGE_METRICS[stage]}
    return Profile(source="ncu", metrics=metrics, kernel="row_kernel", shares={"row_kernel": 0.9953, "fill": 0.0047})

"""A team and an evaluator that follow a script: doubles of the two protocols, so that a route is chosen by the test.

A kernel's source is `# <word> <number>` and what the evaluator thinks of it stands in its first word:
`ok` (usable, bound = number ms), `timed` (measured, number ms), `bad` (incorrect), `broken` (compile error), `flaky`
(as `ok`, but incorrect as a finalist) and so on.
"""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from egg_graph.schema import (
    Analysis,
    Baseline,
    Bound,
    Brief,
    Candidate,
    Check,
    Diagnosis,
    Draft,
    Evaluation,
    Expectation,
    Finding,
    InfrastructureError,
    KernelTask,
    Knob,
    Metric,
    Profile,
    Rung,
    StageName,
    Timing,
    Trial,
    Usage,
)

REFERENCE = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(16, 16)]
"""

CHECKS = ("shrunk", "awkward")
FLOOR = 0.5
"""Floor of every task [ms]."""
WRONG = {
    "bad": "incorrect",
    "broken": "compile_error",
    "crash": "runtime_error",
    "hang": "timeout",
    "cheat": "invalid",
    "unevaluable": "unevaluable",
}


def kernel(word: str, number: float = 1.0, space: str = "") -> str:
    """A source that the scripted evaluator understands."""
    return f"# {word} {number}\n{space}"


def tunable(word: str, number: float, stage: StageName, values: Iterable[int]) -> str:
    """A source with one knob, NUMBER, for one stage; the evaluator takes the knob's value as its milliseconds."""
    config, space = {"NUMBER": number}, {stage: {"NUMBER": list(values)}}
    return kernel(word, number, f'CONFIG = {config}\nSPACE = {space}\nprint(CONFIG["NUMBER"])\n')


class ScriptedTeam:
    """Answers in the order of its script, and repeats the last answer for ever.

    Args:
        writes: sources, one for each call of the coder; an empty one is an answer without code.
        worth: the analyst's verdicts.
        by: how the analyst's plans are carried out.
        config: the values that the analyst's plans change, by `config`.
        calls_models: whether it counts as a team that chat models play.
    """

    def __init__(
        self,
        writes: Sequence[str],
        worth: Sequence[bool] = (True,),
        usage: Usage | None = None,
        by: Literal["rewrite", "sweep", "config"] = "rewrite",
        config: dict[str, Knob] | None = None,
        calls_models: bool = False,
    ) -> None:
        self.name = "scripted"
        self.calls_models = calls_models
        self.by: Literal["rewrite", "sweep", "config"] = by
        self.config = config or {}
        self.writes = list(writes)
        self.worth = list(worth)
        self.usage = usage or Usage(calls=1, input_tokens=10, output_tokens=5)
        self.briefs: list[tuple[str, Brief]] = []

    def analyze(self, brief: Brief) -> Analysis:
        self.briefs.append(("analyst", brief))
        return Analysis(
            worth_optimizing=self._next(self.worth, "analyst"),
            bottleneck="dram",
            category="operator_fusion",
            plan=f"plan {self._calls('analyst')}",
            by=self.by,
            config=self.config,
            expected=Expectation(metric="bound_ms", direction="down"),
            usage=self.usage,
        )

    def write(self, brief: Brief) -> Draft:
        self.briefs.append(("coder", brief))
        source = self._next(self.writes, "coder")
        return Draft(source=source, problem="" if source else "no code in the answer", usage=self.usage)

    def debug(self, brief: Brief) -> Diagnosis:
        self.briefs.append(("debugger", brief))
        plan = f"mend {self._calls('debugger')}"
        return Diagnosis(critical_issue="mask is wrong", modification_plan=plan, usage=self.usage)

    def calls(self) -> list[str]:
        return [role for role, _ in self.briefs]

    def _calls(self, role: str) -> int:
        return self.calls().count(role)

    def _next(self, script: list, role: str):
        return script[min(self._calls(role), len(script)) - 1]


class StatelessTeam(ScriptedTeam):
    """Finds its place in the script by the brief, as a real team does, so that a resumed run goes on where it was."""

    def write(self, brief: Brief) -> Draft:
        number = sum(s.attempts for s in brief.summaries) + len(brief.attempts)
        return Draft(source=self.writes[min(number, len(self.writes) - 1)], usage=self.usage)

    def analyze(self, brief: Brief) -> Analysis:
        return super().analyze(brief).model_copy(update={"plan": f"plan in {brief.stage} after {len(brief.attempts)}"})

    def debug(self, brief: Brief) -> Diagnosis:
        return super().debug(brief).model_copy(update={"modification_plan": f"mend after {len(brief.attempts)}"})


class ScriptedEvaluator:
    """Judges a source by its first line.

    Args:
        unevaluable: what the baseline says.
        clock: whether the baseline is timed.
        faults: how many calls fail with an infrastructure error before the first answer.
        raises: whether such a fault raises or comes as an `infra_error` evaluation.
        log: file to which the id of every candidate evaluated is appended; a finalist's after the word `finalist`.
    """

    def __init__(
        self,
        *,
        unevaluable: str = "",
        clock: bool = False,
        faults: int = 0,
        raises: bool = True,
        log: Path | None = None,
    ) -> None:
        self.unevaluable = unevaluable
        self.clock = clock
        self.faults = faults
        self.raises = raises
        self.log = log
        self.evaluated: list[str] = []
        self.finalists: list[str] = []
        self.screened: list[int] = []

    def baseline(self, task: KernelTask) -> Baseline:
        self._write("baseline")
        return Baseline(
            task=task.digest,
            operators=("aten.relu",),
            floor_ms=FLOOR,
            eager_ms=4.0 if self.clock else None,
            unevaluable=self.unevaluable,
        )

    def evaluate(
        self, task: KernelTask, candidate: Candidate, *, stage: StageName | None = None, finalist: bool = False
    ) -> Evaluation:
        if self.faults:
            self.faults -= 1
            if self.raises:
                raise InfrastructureError("the GPU is busy")
            return self._evaluation(task, candidate, status="infra_error", reason="the GPU is busy")
        (self.finalists if finalist else self.evaluated).append(candidate.id)
        self._write(f"finalist {candidate.id}" if finalist else candidate.id)
        word, number = read(candidate)
        if word == "flaky" and finalist:
            word = "bad"
        if word in WRONG:
            finding = Finding(kind="wrong_values", message="differs", where="output 0", cure="check the mask")
            return self._evaluation(task, candidate, status=WRONG[word], reason=f"{word} kernel", findings=(finding,))
        return self._right(task, candidate, word, number)

    def screen(self, task: KernelTask, candidates: Sequence[Candidate]) -> tuple[Trial, ...]:
        self._write(f"screen {len(candidates)}")
        self.screened.append(len(candidates))
        judged = [self._right(task, c, *read(c)) for c in candidates]
        return tuple(
            Trial(config=c.config, status=e.status, merit=e.merit, milliseconds=e.timing and e.timing.candidate_ms)
            for c, e in zip(candidates, judged, strict=True)
        )

    def _right(self, task: KernelTask, candidate: Candidate, word: str, number: float) -> Evaluation:
        checks = tuple(
            Check(name=name, seed=1, error=1e-7, budget=1e-5, max_abs=1e-6, passed=True, machine="interpreter")
            for name in (CHECKS[:1] if word == "halfproven" else CHECKS)
        )
        bound = Bound(
            dram_bytes=1,
            requested_bytes=1,
            dot_flops=0,
            milliseconds=number,
            limiter="dram",
            launches=1,
            floor_ms=FLOOR,
        )
        timing = None
        status = "correct"
        if word in ("timed", "slow"):
            status = "faster" if word == "timed" else "slower"
            timing = Timing(
                candidate_ms=number,
                eager_ms=4.0,
                baseline="eager",
                ratio=4 / number,
                ratio_low=1,
                ratio_high=9,
                pairs=30,
            )
        return self._evaluation(
            task, candidate, status=status, reason=f"{word} kernel", checks=checks, bound=bound, timing=timing
        )

    def _evaluation(self, task: KernelTask, candidate: Candidate, **fields) -> Evaluation:
        return Evaluation(
            candidate=candidate.id,
            task=task.digest,
            rungs=(Rung(name="scripted", outcome="passed", statement="the script says so"),),
            profile=Profile(source="compiled", metrics={"registers": Metric(value=32.0, unit="per thread")}),
            **fields,
        )

    def _write(self, line: str) -> None:
        if self.log is not None:
            with self.log.open("a") as file:
                file.write(line + "\n")
                file.flush()
                os.fsync(file.fileno())


def read(candidate: Candidate) -> tuple[str, float]:
    """Word and number of a scripted source; a knob NUMBER goes before the number of the first line."""
    _, word, number = candidate.source.splitlines()[0].split()
    return word, float(candidate.config.get("NUMBER", number))

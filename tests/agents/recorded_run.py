"""One run with everything in it that a brief can tell: repairs, a better kernel, a plan that was no better.

Its team answers from a script; what the evaluator said of each kernel, without a GPU, was recorded by
`python -m tests.agents.recorded_run`, which writes saved/run_no_gpu.json. So briefs of a real run are made in no time.
"""

import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from egg_graph import Context, build_egg_graph
from egg_graph.schema import (
    Analysis,
    Baseline,
    Brief,
    Candidate,
    Diagnosis,
    Draft,
    Evaluation,
    Expectation,
    KernelTask,
    Role,
    StageName,
    Trial,
)

SAVED = Path(__file__).parent / "saved" / "run_no_gpu.json"

REFERENCE = """import torch
from torch import nn

rows = 512
width = 4000


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return torch.softmax(x * self.weight, dim=1)


def get_inputs():
    return [torch.randn(rows, width)]
"""

HEAD = """import torch
import torch.nn as nn
import triton
import triton.language as tl

"""

SCALE = '''
@triton.jit
def scale_kernel(x_ptr, w_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    """y[r, :] = x[r, :] * w: one program per row."""
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    x = tl.load(x_ptr + row * columns + offsets, mask=inside, other=0.0)
    w = tl.load(w_ptr + offsets{mask})
    tl.store(y_ptr + row * columns + offsets, x * w, mask=inside)


@triton.jit
def softmax_kernel(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    """y[r, :] = softmax(x[r, :]): one program per row."""
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    x = tl.load(x_ptr + row * columns + offsets, mask=inside, other=-float("inf"))
    weights = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row * columns + offsets, weights / tl.sum(weights, axis=0), mask=inside)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4000))

    def forward(self, x):
        x = x.contiguous()
        scaled = torch.empty_like(x)
        y = torch.empty_like(x)
        columns = x.shape[1]
        block = triton.next_power_of_2(columns)
        scale_kernel[(x.shape[0],)](x, self.weight, scaled, columns, BLOCK=block, num_warps=8)
        softmax_kernel[(x.shape[0],)](scaled, y, columns, BLOCK=block, num_warps=8)
        return y
'''

FUSED = '''
@triton.jit
def scaled_softmax_kernel(x_ptr, w_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    """y[r, :] = softmax(x[r, :] * w): one program per row, one read and one write of it."""
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    x = tl.load(x_ptr + row * columns + offsets, mask=inside, other={other})
    x = x * tl.load(w_ptr + offsets, mask=inside, other=1.0)
    weights = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row * columns + offsets, weights / tl.sum(weights, axis=0), mask=inside)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4000))

    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        columns = x.shape[1]
        block = triton.next_power_of_2(columns)
        scaled_softmax_kernel[(x.shape[0],)](x, self.weight, y, columns, BLOCK=block, num_warps={warps})
        return y
'''

KERNELS = (
    HEAD + SCALE.replace("{mask}", ""),
    HEAD + SCALE.replace("{mask}", ", mask=offsets <= columns, other=1.0"),
    HEAD + SCALE.replace("{mask}", ", mask=inside, other=1.0"),
    HEAD + FUSED.replace("{other}", "0.0").replace("{warps}", "8"),
    HEAD + FUSED.replace("{other}", '-float("inf")').replace("{warps}", "8"),
    HEAD + FUSED.replace("{other}", '-float("inf")').replace("{warps}", "16"),
)
"""What the coder writes, in order: a seed with its two repairs, a fusion with its repair, another mapping."""

DIAGNOSES = (
    ("line 14: the load of w has no mask, so lanes past the last column read outside of it", "mask the load of w"),
    ("line 14: the mask lets one lane too many through: offsets <= columns", "compare with < as the other loads do"),
    ("line 13: padding lanes hold 0 and take part in maximum and sum", "pad the load of x with minus infinity"),
)
ANALYSES = (
    Analysis(
        worth_optimizing=True,
        bottleneck="DRAM bandwidth: 2 launches move 32.8 MB where 16.4 MB are compulsory",
        root_cause="the scaled row is stored in line 15 and read again in line 24",
        category="operator_fusion",
        plan="Fuse scale_kernel into softmax_kernel: load the row of x and w in one program, multiply in registers, "
        "go on with the maximum; drop the tensor `scaled` and the first launch.",
        expected=Expectation(metric="dram_bytes", direction="down"),
        principles=("one_read_per_row",),
    ),
    Analysis(
        worth_optimizing=True,
        bottleneck="occupancy 0.625 at 48 registers a thread",
        root_cause="8 warps hold 16 elements a thread in line 13",
        category="parallel_mapping",
        plan="Launch scaled_softmax_kernel with num_warps=16, so that each thread holds 8 elements.",
        expected=Expectation(metric="occupancy", direction="up"),
    ),
    Analysis(worth_optimizing=False, bottleneck="DRAM bandwidth", root_cause="at the floor: no plan moves less"),
)


class Team:
    """Answers from the script, and keeps every brief."""

    name = "scripted"

    def __init__(self) -> None:
        self.briefs: list[tuple[Role, Brief]] = []

    def analyze(self, brief: Brief) -> Analysis:
        return ANALYSES[min(self._number("analyst", brief), len(ANALYSES) - 1)]

    def write(self, brief: Brief) -> Draft:
        return Draft(source=KERNELS[self._number("coder", brief)])

    def debug(self, brief: Brief) -> Diagnosis:
        issue, plan = DIAGNOSES[self._number("debugger", brief)]
        return Diagnosis(critical_issue=issue, modification_plan=plan)

    def _number(self, role: Role, brief: Brief) -> int:
        self.briefs.append((role, brief))
        return sum(other == role for other, _ in self.briefs) - 1


class RecordedEvaluator:
    """Says of each kernel what was recorded."""

    def __init__(self) -> None:
        told = json.loads(SAVED.read_text(encoding="utf-8"))
        self._baseline = Baseline.model_validate(told["baseline"])
        self._evaluations = {one["candidate"]: Evaluation.model_validate(one) for one in told["evaluations"]}

    def baseline(self, task: KernelTask) -> Baseline:
        return self._baseline

    def evaluate(
        self, task: KernelTask, candidate: Candidate, *, stage: StageName | None = None, finalist: bool = False
    ) -> Evaluation:
        return self._evaluations[candidate.id]

    def screen(self, task: KernelTask, candidates: Sequence[Candidate]) -> tuple[Trial, ...]:
        raise AssertionError("no kernel of this run has knobs")


def run(evaluator: Any) -> tuple[dict[str, Any], list[tuple[Role, Brief]]]:
    """Run the script: the final state, and each brief with the role that it was for."""
    team = Team()
    graph = build_egg_graph(team=team, evaluator=evaluator)
    context = Context(target="h200", device="none", stages=("algorithmic_structure", "parallel_mapping"))
    state = graph.invoke({"reference": REFERENCE, "name": "scaled_softmax"}, context=context)
    return state, [(role, brief.model_copy(update={"remaining": _steady(brief)})) for role, brief in team.briefs]


def _steady(brief: Brief) -> Any:
    """What is left of the limits, but for the seconds, which differ from run to run."""
    return brief.remaining and brief.remaining.model_copy(update={"seconds": 3600.0})


@cache
def recorded_briefs() -> tuple[tuple[Role, Brief], ...]:
    """Every brief of the recorded run, in order."""
    return tuple(run(RecordedEvaluator())[1])


def record() -> None:
    """Run the script with a real evaluator, and save what it says."""
    from egg_graph.evaluator import LocalEvaluator

    with LocalEvaluator(device="none") as evaluator:
        state, _ = run(evaluator)
    evaluations = [attempt.evaluation for attempt in state["attempts"]]
    for evaluation in evaluations:
        print(evaluation.status, evaluation.reason)
    told = {
        "baseline": json.loads(state["baseline"].model_dump_json()),
        "evaluations": [json.loads(e.model_dump_json(exclude={"environment", "rungs"})) for e in evaluations],
    }
    text = re.sub(r'(File \\"|")/[^" ]*/(site-packages|src|lib|job-\w+)/', r"\1\2/", json.dumps(told, indent=1))
    SAVED.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    record()

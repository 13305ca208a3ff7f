"""Briefs with everything in them, for tests of prompts and roles."""

from typing import Any

from egg_graph.agents import Prompts
from egg_graph.agents.chat_role import ChatRole
from egg_graph.knowledge import load_hardware, load_principles, match_principles
from egg_graph.nodes.history import read_chains
from egg_graph.schema import (
    Analysis,
    Attempt,
    Baseline,
    Bound,
    Brief,
    Candidate,
    Check,
    Diagnosis,
    Effect,
    Evaluation,
    Expectation,
    Finding,
    KernelResources,
    KernelTask,
    Metric,
    Profile,
    Remaining,
    StageSummary,
    Sweep,
    Trial,
)

PROMPTS = Prompts()

REFERENCE = """import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.proj = nn.Linear(features, features)

    def forward(self, x):
        return torch.softmax(self.proj(x), dim=-1)


def get_inputs():
    return [torch.randn(64, 128)]


def get_init_inputs():
    return [128]
"""

KERNEL = '''import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)


class ModelNew(nn.Module):
    """Copies."""

    def forward(self, x):
        y = torch.empty_like(x)
        copy_kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
        return y
'''

FINDING = Finding(
    kind="wrong_values", message="62 of 64 rows differ", where="output 0", cure="divide by the sum of the row"
)


def make_brief(**changes: Any) -> Brief:
    """A brief in which every section has something to say; `changes` replaces fields."""
    stage = changes.get("stage", "algorithmic_structure")
    task = changes.pop("task", None) or KernelTask(
        name="linear_softmax", reference=REFERENCE, target=load_hardware(changes.pop("target", "h200"))
    )
    task = task.model_copy(update={"precision": changes.pop("precision", "tf32")})
    baseline = Baseline(
        task=task.digest,
        operators=("aten.linear.default", "aten.softmax.int"),
        inputs={"x": "float32[64, 128]"},
        outputs={"0": "float32[64, 128]"},
        compulsory_bytes=131072,
        eager_bytes=262144,
        flops=2.1e6,
        floor_ms=0.0125,
    )
    kernel = Candidate(
        source=KERNEL, author="tester", stage=stage, mode="seed", config={"BLOCK": 256},
        space={"algorithmic_structure": {"BLOCK": (256, 512)}},
    )  # fmt: skip
    evaluation = Evaluation(
        candidate=kernel.id,
        task=task.digest,
        status="incorrect",
        reason="output 0 differs",
        findings=(FINDING,),
        checks=(
            Check(name="shrunk", seed=7, error=0.25, budget=0.000123, max_abs=1.5, passed=False, machine="interpreter"),
        ),
        resources=(
            KernelResources(
                kernel="copy_kernel", target="sm_90", grid=(32,), num_warps=4, num_stages=3, registers=26,
                shared_limit=232448, occupancy=1.0, memory_instructions={"LDG.128": 2},
            ),
        ),
        bound=Bound(
            dram_bytes=65536, requested_bytes=65536, dot_flops=0, milliseconds=0.5, limiter="dram", launches=2
        ),
        profile=Profile(
            source="ncu",
            metrics={
                "dram__throughput.avg.pct_of_peak_sustained_elapsed": Metric(value=83.0, unit="%"),
                "lts__t_sector_hit_rate.pct": Metric(missing="not on this GPU"),
            },
        ),
        log="Traceback: something printed",
    )  # fmt: skip
    analysis = Analysis(
        worth_optimizing=True,
        bottleneck="DRAM bandwidth",
        root_cause="softmax reads its row three times",
        category="operator_fusion",
        plan="Fuse softmax into the epilogue.",
        expected=Expectation(metric="dram_bytes", direction="down"),
        principles=("one_read_per_row",),
    )
    attempt = Attempt(
        number=4,
        candidate=kernel.model_copy(update={"plan": "two reads per row", "mode": "optimize"}),
        evaluation=evaluation,
        analysis=analysis,
        effect=Effect(expected=Expectation(metric="dram_bytes", direction="down"), before=10, after=20, held=False),
    )
    summary = StageSummary(
        stage="algorithmic_structure", outcome="improved", attempts=2, tried=("fusion",), paid=("one launch less",),
        failed=("split-K -> incorrect",), left="wider loads", best=kernel.id, best_status="correct",
    )  # fmt: skip
    sweep = Sweep(
        stage="parallel_mapping", kernel=kernel.id, knobs={"BLOCK": (256, 512, 1024)}, winner={"BLOCK": 512},
        trials=(
            Trial(config={"BLOCK": 256}, status="correct", milliseconds=0.25, merit=(0.0, 0.25)),
            Trial(config={"BLOCK": 512}, status="correct", milliseconds=0.125, merit=(0.0, 0.125)),
            Trial(config={"BLOCK": 1024}, status="out_of_memory", reason="shared memory"),
        ),
    )  # fmt: skip
    fields: dict[str, Any] = {
        "task": task,
        "baseline": baseline,
        "stage": stage,
        "attempt": 4,
        "objective": "Few passes over memory.",
        "metrics": ("dram__throughput.avg.pct_of_peak_sustained_elapsed", "launch__waves_per_multiprocessor"),
        "mode": "optimize",
        "kernel": kernel,
        "evaluation": evaluation,
        "analysis": analysis,
        "diagnosis": Diagnosis(critical_issue="the sum is missing", modification_plan="divide by the sum"),
        "summaries": (summary,),
        "sweeps": (sweep,),
        "attempts": (attempt,),
        "chains": read_chains((attempt,), None, attempt.candidate.stage),
        "measurable": ("launches", "dram__throughput.avg.pct_of_peak_sustained_elapsed"),
        "ranked_by": "The faster one stays.",
        "remaining": Remaining(attempts=9, seconds=600, optimizations=2, repairs=3, dollars=1.5),
        "principles": match_principles(load_principles(), task=task, stage=stage, baseline=baseline),
        "guidance": {"gemm": "Keep the pointwise chain in the epilogue.", "row": "Read each row once."},
    }
    return Brief(**(fields | changes))


def whole(role: ChatRole[Any], brief: Brief) -> str:
    """All that a model is sent: the system prompt and the prompt."""
    return PROMPTS.system(role.name, brief) + "\n" + role.prompt(PROMPTS, brief)


def seed_brief(**changes: Any) -> Brief:
    """The first brief of a run: nothing but the task."""
    nothing = dict.fromkeys(("kernel", "evaluation", "analysis", "diagnosis"))
    empty = nothing | dict.fromkeys(("summaries", "attempts", "chains", "sweeps"), ())
    return make_brief(mode="seed", **(empty | changes))

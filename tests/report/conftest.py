"""Run folders as `optimize` leaves them: one timed on a GPU, one proven without, one that kept the reference."""

import json

import pytest

from egg_graph.schema import (
    Analysis,
    Attempt,
    Baseline,
    Bound,
    Candidate,
    Check,
    Diagnosis,
    Effect,
    Environment,
    Evaluation,
    Expectation,
    Figure,
    Finding,
    Hardware,
    KernelResources,
    KernelTask,
    Metric,
    Profile,
    Rung,
    StageSummary,
    Timing,
    Usage,
)

REFERENCE = "import torch\n\nclass Model(torch.nn.Module):\n    pass  # <script>alert('reference')</script>\n"
SOURCE = """import triton
import triton.language as tl

BAIT = "</pre><script>alert('kernel')</script><img src=x onerror=alert(1)>"


@triton.jit
def row_kernel(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.exp(tl.load(x + offsets, mask=offsets < n)), mask=offsets < n)
"""


def figure(value, unit):
    return Figure(value=value, unit=unit, source="data sheet")


HARDWARE = Hardware(
    key="h200",
    name="NVIDIA H200",
    vendor="nvidia",
    arch="sm_90",
    figures={"dram_bandwidth": figure(4.8e12, "byte/s"), "peak_tf32": figure(494e12, "flop/s")},
)
TASK = KernelTask(name="softmax", reference=REFERENCE, target=HARDWARE)
ENVIRONMENT = Environment(
    machine="host", gpu="NVIDIA H200", driver="580.1", torch="2.11.0", triton="3.6.0", python="3.12.1"
)


def candidate(source, mode="seed", stage="algorithmic_structure", **more):
    return Candidate(source=source, author="embedded expert", stage=stage, mode=mode, **more)


def evaluation(kernel, status, timed, **more):
    bound = Bound(dram_bytes=1.05e9, requested_bytes=1.1e9, dot_flops=0, milliseconds=0.218, limiter="dram", launches=1)
    timing = Timing(
        candidate_ms=0.251, eager_ms=0.402, compile_ms=0.27, eager_fp32_ms=0.41, baseline="compile",
        ratio=1.076, ratio_low=1.06, ratio_high=1.09, pairs=40, notes=("clocks were steady",),
        candidate_host_ms=0.262, baseline_host_ms=0.281,
    )  # fmt: skip
    return Evaluation(
        candidate=kernel.id,
        task=TASK.digest,
        status=status,
        bound=bound,
        timing=timing if timed else None,
        environment=ENVIRONMENT,
        **more,
    )


def good(timed):
    kernel = candidate(SOURCE, mode="tune", stage="tensor_tiling", plan="BLOCK 2048", parent="abc")
    return kernel, evaluation(
        kernel,
        "faster" if timed else "correct",
        timed,
        reason="1.08x over torch.compile" if timed else "right at every shape tried",
        rungs=(
            Rung(name="static", outcome="passed", statement="keeps the contract", seconds=0.01),
            Rung(name="timing", outcome="passed" if timed else "skipped", statement="was timed against PyTorch"),
        ),
        checks=(
            Check(name="awkward", shapes={"x": (7, 31)}, seed=3, error=2e-8, budget=1e-6, max_abs=1e-7, passed=True,
                  machine="interpreter"),
        ),
        resources=(
            KernelResources(kernel="row_kernel", target="sm_90", grid=(4096,), num_warps=8, num_stages=2, registers=40,
                            shared_bytes=512, shared_limit=232448, occupancy=0.75, memory_instructions={"LDG.128": 4}),
        ),
        triton_share=1.0,
        not_preserved=("infinities (minus_infinite inputs, awkward shape: got nan)",),
        profile=Profile(source="compiled", metrics={"launch__grid_size": Metric(value=4096),
                                                    "dram__bytes_read.sum": Metric(missing="no GPU")}),
    )  # fmt: skip


def bad():
    kernel = candidate(SOURCE + "# broken\n", plan="<b>bold plan</b>")
    finding = Finding(
        kind="out_of_bounds", message="reads <script>alert('finding')</script> outside", where="row_kernel", cure="mask"
    )
    return kernel, evaluation(
        kernel,
        "runtime_error",
        False,
        reason="out of bounds",
        findings=(finding,),
        log="\x1b[31m</pre><script>alert('log')",
    )


def attempts(timed):
    (broken, failed), (kernel, judged) = bad(), good(timed)
    analysis = Analysis(
        worth_optimizing=True,
        bottleneck="two <i>passes</i>",
        plan="one pass",
        category="operator_fusion",
        principles=("one_read_per_row",),
    )
    expected = Expectation(metric="bound_ms", direction="down")
    return (
        Attempt(
            number=1,
            candidate=broken,
            evaluation=failed,
            diagnosis=Diagnosis(critical_issue="mask", modification_plan="mask"),
        ),
        Attempt(
            number=2,
            candidate=kernel,
            evaluation=judged,
            analysis=analysis,
            improved=True,
            effect=Effect(expected=expected, before=0.4, after=0.2, held=True),
            usage=Usage(calls=2, input_tokens=1000, output_tokens=500, seconds=3.0),
        ),
    )


def baseline(timed):
    return Baseline(
        task=TASK.digest,
        operators=("aten._softmax.default",),
        inputs={"x": "float32[4096, 32000]"},
        outputs={"out": "float32[4096, 32000]"},
        compulsory_bytes=1.05e9,
        eager_bytes=1.05e9,
        flops=1.1e12 if timed else 0.0,
        floor_ms=0.218,
        eager_ms=0.402 if timed else None,
        compile_ms=0.27 if timed else None,
        environment=ENVIRONMENT,
    )


SUMMARY = StageSummary(
    stage="algorithmic_structure",
    outcome="improved",
    attempts=2,
    paid=("one pass",),
    failed=("<u>x</u>",),
    left="nothing",
)


def write_run(folder, *, timed=True, kept=False):
    """Write evidence.json and history.jsonl as `optimize` does."""
    kernel, judged = good(timed)
    history = attempts(timed)[: 1 if kept else 2]
    evidence = {
        "run": folder.name,
        "status": "reference_kept" if kept else judged.status,
        "verdict": "The reference is kept: <em>nothing</em> was usable."
        if kept
        else f"Accepted as {judged.status}.\n  proven: much",
        "task": TASK.model_dump(mode="json"),
        "baseline": baseline(timed).model_dump(mode="json"),
        "best": None if kept else kernel.model_dump(mode="json"),
        "evaluation": None if kept else judged.model_dump(mode="json"),
        "proven": [],
        "not_proven": [],
        "summaries": [SUMMARY.model_dump(mode="json")],
        "attempts": len(history),
        "usage": Usage(calls=2).model_dump(mode="json"),
        "seconds": 12.0,
    }
    (folder / "evidence.json").write_text(json.dumps(evidence))
    (folder / "history.jsonl").write_text("".join(a.model_dump_json() + "\n" for a in history))
    return folder


@pytest.fixture
def timed_run(tmp_path):
    return write_run(tmp_path)


@pytest.fixture
def untimed_run(tmp_path):
    return write_run(tmp_path, timed=False)


@pytest.fixture
def kept_run(tmp_path):
    return write_run(tmp_path, timed=False, kept=True)

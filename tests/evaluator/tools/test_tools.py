"""What the tools' own words amount to: Nsight Compute's table, compute-sanitizer's report, the device's trace."""

from typing import Any

import pytest
import torch

from egg_graph.evaluator.device import ncu
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.tools import sanitizer_report
from egg_graph.evaluator.tools.compiled_metrics import profile_from_compiler
from egg_graph.evaluator.tools.device_trace import DeviceTrace, read_trace
from egg_graph.evaluator.tools.job_files import why_too_large
from egg_graph.evaluator.tools.metrics import profile_from_ncu, profile_from_trace
from egg_graph.evaluator.tools.trace_rung import judge_trace
from egg_graph.evaluator.worker.trace_job import summarise_device_work
from egg_graph.schema import STAGE_METRICS, Hardware, Integrity, KernelResources, KernelTask

LOADS = "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio"
TABLE = (
    '==PROF== Connected to process 7\n"ID","Kernel Name","gpu__time_duration.sum","launch__grid_size",'
    f'"dram__bytes_read.sum","{LOADS}"\n'
    '"","","ns","","byte","sector"\n'
    '"0","tail_kernel","1,000","384","3,072","16"\n'
    '"1","matmul_kernel","24,096","96","5,127,680","0"\n'
    '"2","matmul_kernel","20,000","96","5,127,680","0"\n'
    '"3","nvjet_hsh_128x64","99,000","7","1","1"\n'
)
UNWRITTEN = """========= COMPUTE-SANITIZER
========= Uninitialized __global__ memory read of size 16 bytes
=========     at softmax_kernel+0x1960 in candidate.py:16
=========     by thread (0,0,0) in block (10,0,0)
=========     Address 0x7fcc4a868000
=========
========= Uninitialized __global__ memory read of size 16 bytes
=========     at softmax_kernel+0x1960 in candidate.py:16
=========     by thread (1,0,0) in block (10,0,0)
=========     Address 0x7fcc4a868010
=========
========= ERROR SUMMARY: 2 errors
"""
OUTSIDE = """========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at void cutlass::Kernel<int>(cutlass::Params)+0x90
=========     by thread (0,0,0) in block (0,0,0)
=========
========= Invalid __global__ read of size 4 bytes
=========     at softmax_kernel+0xb10 in candidate.py:13
=========     by thread (31,0,0) in block (15,0,0)
=========     Address 0x7fe960840000 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7fe960800000 of size 262144 bytes
=========
========= ERROR SUMMARY: 2 errors
"""


def test_metrics_are_those_of_the_own_kernel_with_the_largest_share() -> None:
    profile = profile_from_ncu(TABLE, "memory_optimization", own=("tail_kernel", "matmul_kernel"), own_share=0.5)
    assert profile is not None
    assert profile.kernel == "matmul_kernel"
    assert profile.shares == {
        "matmul_kernel": pytest.approx(0.489, abs=1e-3),
        "tail_kernel": pytest.approx(0.011, abs=1e-3),
    }
    assert profile.metrics["gpu__time_duration.sum"].value == 24096
    assert "TMA" in profile.metrics[LOADS].missing
    assert all((m.value is None) == bool(m.missing) for m in profile.metrics.values())
    assert profile_from_ncu(TABLE, None, own=("other_kernel",)) is None


def test_units_are_told_where_nsight_compute_prints_none() -> None:
    profile = profile_from_ncu(TABLE, "parallel_mapping", own=("tail_kernel",), absent=("sm__cycles_active.avg",))
    assert profile is not None
    assert profile.metrics["launch__grid_size"].unit == "block"
    assert profile.metrics["sm__cycles_active.avg"].missing == "this GPU has no such metric"
    assert set(profile.metrics) == set(STAGE_METRICS["parallel_mapping"])


HOSTILE = '"ID","Kernel Name"\n"","ns"\n"0","' + "x" * 200_000 + '"\n'


@pytest.mark.parametrize(
    "text", ["", '"ID","Kernel Name"\n', "==ERROR== ERR_NVGPUCTRPERM", '"ID"\n"x\n\0"\n' * 3, HOSTILE]
)
def test_a_text_without_a_table_is_none(text: str) -> None:
    assert profile_from_ncu(text, None) is None


def test_metrics_that_a_gpu_lacks_are_read_from_the_complaint() -> None:
    text = "==ERROR== Failed to find metric smsp__gone.sum\n==ERROR== Failed to find metric regex:^sm__gone.avg$\n"
    assert ncu.unknown_metrics(text) == ("smsp__gone.sum", "sm__gone.avg")


def test_a_sanitizer_speaks_of_the_candidates_kernels_alone() -> None:
    findings, others = sanitizer_report.judge_report("memcheck", OUTSIDE, {"softmax_kernel"})
    assert [f.kind for f in findings] == ["out_of_bounds"]
    assert "0x7fe960840000 is out of bounds" in findings[0].message
    assert "candidate.py:13" in findings[0].where
    assert others == 1
    assert sanitizer_report.judge_report("memcheck", OUTSIDE, {"other_kernel"}) == ([], 2)


def test_the_same_complaint_is_told_once() -> None:
    findings, _ = sanitizer_report.judge_report("initcheck", UNWRITTEN, {"softmax_kernel"})
    assert [f.kind for f in findings] == ["uninitialised_read"]
    assert sanitizer_report.is_complete(UNWRITTEN)
    assert not sanitizer_report.is_complete(
        "========= Error: Target application terminated before first instrumented API call"
    )


def event(name: str, start: float, took: float, **more: Any) -> dict[str, Any]:
    return {"cat": "kernel", "name": name, "ts": start, "dur": took, "args": {"stream": 7, "grid": [8, 1, 1], **more}}


EVENTS = [
    event("spin_kernel(long)", 0, 1000),
    event("softmax_kernel", 1000, 30, **{"registers per thread": 55, "shared memory": 16}),
    event("hidden_gemm", 1010, 40, stream=9),
    {"cat": "gpu_memcpy", "name": "Memcpy DtoD", "ts": 1060, "dur": 10, "args": {"stream": 7}},
    {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 990, "dur": 3},
]


def traced(launches: dict[str, int]) -> DeviceTrace:
    found = read_trace({**summarise_device_work(EVENTS), "launches": launches})
    assert isinstance(found, DeviceTrace)
    return found


def test_a_trace_knows_whose_kernels_ran() -> None:
    trace = traced({"softmax_kernel": 1})
    assert trace.busy_ms == pytest.approx(0.060), "streams overlap; the spin is ours"
    assert trace.streams == 2
    assert [row.name for row in trace.own] == ["softmax_kernel"]
    assert [row.name for row in trace.foreign] == ["hidden_gemm"]
    assert trace.own_share == pytest.approx(30 / 80)
    assert [row.name for row in traced({"softmax_kernel": 1, "hidden_gemm": 0}).own] == ["softmax_kernel"]


def test_a_trace_is_judged_under_the_tasks_terms(h200: Hardware) -> None:
    mixed = KernelTask(name="t", reference="", target=h200)
    strict = mixed.model_copy(update={"triton_only": True})
    trace, seen = traced({"softmax_kernel": 1}), Integrity(kernels=("softmax_kernel",))
    integrity, findings = judge_trace(mixed, seen, trace, None)
    assert findings == []
    assert integrity.foreign_kernels == ("hidden_gemm",)
    assert [f.kind for f in judge_trace(strict, seen, trace, None)[1]] == ["library_call"]
    assert [f.kind for f in judge_trace(mixed, seen, traced({}), None)[1]] == ["no_triton_kernel"]
    assert [f.kind for f in judge_trace(mixed, seen, trace, 0.005)[1]] == ["clock_disagreement"]
    assert judge_trace(mixed, seen, trace, 0.05)[1] == []


@pytest.mark.parametrize("answer", [{"why": "no CUPTI"}, {}, {"rows": 3, "busy_ms": 1}, {"rows": [{}], "busy_ms": "x"}])
def test_an_unreadable_trace_says_why(answer: dict[str, Any]) -> None:
    assert isinstance(read_trace(answer), str)


def test_a_traced_profile_says_what_counters_would_have_told(h200: Hardware) -> None:
    resources = KernelResources(kernel="softmax_kernel", target="sm_90", grid=(8,), num_warps=4, num_stages=2)
    profile = profile_from_trace(
        traced({"softmax_kernel": 1}), [resources], "tensor_tiling", h200, "counters are denied"
    )
    assert profile.source == "cupti"
    assert profile.kernel == "softmax_kernel"
    assert profile.why == "counters are denied"
    assert profile.metrics["gpu__time_duration.sum"].value == 30000
    assert profile.metrics["launch__registers_per_thread"].value == 55
    assert profile.metrics["sm__inst_executed.sum"].missing == "counters are denied"
    assert profile.shares["hidden_gemm"] == 0.5


def test_the_compiled_profile_says_what_it_cannot_know(h200: Hardware) -> None:
    resources = KernelResources(
        kernel="k", target="sm_90", grid=(8, 2), num_warps=4, num_stages=2, registers=40, occupancy=0.5
    )
    profile = profile_from_compiler([resources], "parallel_mapping", h200)
    assert profile.source == "compiled"
    assert set(profile.metrics) == {*STAGE_METRICS["parallel_mapping"], "last_wave_fullness"}
    assert profile.metrics["launch__grid_size"].value == 16
    assert profile.metrics["sm__maximum_warps_per_active_cycle_pct"].value == 50
    assert profile.metrics["sm__warps_active.avg.pct_of_peak_sustained_active"].missing
    assert profile_from_compiler([], None, h200).source == "none"


@pytest.mark.parametrize(
    ("grid", "warps", "registers", "shared", "limits", "waves", "last"),
    [
        # a TMA tile of 128x256: one program fits by registers, two by shared memory; 264 programs are two full waves
        ((264,), 8, 255, 98304, (32, 1, 2, 8), 2.0, 100.0),
        ((200, 2), 8, 255, 98304, (32, 1, 2, 8), 3.03, 3.0),
        ((8, 2), 4, 40, 0, (32, 12, 228, 16), 0.01, 1.0),
    ],
)
def test_limits_waves_and_tail_follow_from_what_was_compiled(h200, grid, warps, registers, shared, limits, waves, last):
    kernel = KernelResources(
        kernel="k", target="sm_90", grid=grid, num_warps=warps, num_stages=2, registers=registers, shared_bytes=shared
    )
    metrics = profile_from_compiler([kernel], "parallel_mapping", h200).metrics
    names = [f"launch__occupancy_limit_{what}" for what in ("blocks", "registers", "shared_mem", "warps")]
    assert tuple(metrics[name].value for name in names) == limits
    assert metrics["launch__waves_per_multiprocessor"].value == waves
    assert metrics["last_wave_fullness"].value == last


def test_a_wavefront_of_64_lanes_counts_as_a_warp(mi300x: Hardware) -> None:
    kernel = KernelResources(
        kernel="k", target="gfx942", grid=(608,), num_warps=4, num_stages=2, registers=128, shared_bytes=65536
    )
    metrics = profile_from_compiler([kernel], "parallel_mapping", mi300x).metrics
    assert metrics["launch__block_size"].value == 256
    assert metrics["launch__occupancy_limit_shared_mem"].value == 1
    assert metrics["launch__waves_per_multiprocessor"].value == 2.0


def test_a_table_of_nsight_compute_is_read() -> None:
    text = (
        "==PROF== Connected\n"
        '"ID","Kernel Name","gpu__time_duration.sum","dram__bytes_read.sum"\n'
        '"","","ns","byte"\n"0","small","1,000","10"\n"1","large","45,504","134,224,896"\n'
    )
    profile = profile_from_ncu(text, "memory_optimization")
    assert profile is not None
    assert profile.metrics["gpu__time_duration.sum"].value == 45504
    assert profile.metrics["dram__bytes_read.sum"].value == 134224896
    assert profile.metrics["dram__bytes_read.sum"].unit == "byte"
    assert profile.metrics["l1tex__t_sector_hit_rate.pct"].missing
    assert profile_from_ncu("==ERROR== ERR_NVGPUCTRPERM", None) is None


def test_a_case_of_large_weights_is_not_handed_to_another_process(h200: Hardware) -> None:
    reference = (
        "import torch\n\nclass Model(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.linear = torch.nn.Linear(4, 4)\n\n    def forward(self, x):\n        return self.linear(x)\n\n"
        "def get_inputs():\n    return [torch.randn(2, 4)]\n"
    )
    case = next(Problem(KernelTask(name="linear", reference=reference, target=h200), 0).full_cases())
    assert why_too_large(case) == ""
    case.state["linear.weight"] = torch.zeros(1).expand(1 << 28)
    assert "inputs, weights and outputs of 1024 MiB are too large" in why_too_large(case)

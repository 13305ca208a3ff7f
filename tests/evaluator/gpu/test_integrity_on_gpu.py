"""On a GPU: whose kernels made an answer, and what the tools say of finalists."""

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from egg_graph.evaluator import LocalEvaluator, gpu_present
from egg_graph.evaluator.host.fork_server import ForkServer
from egg_graph.evaluator.tools.waiting_profiler import WaitingProfiler
from egg_graph.evaluator.worker.profile_job import READY
from egg_graph.schema import STAGE_METRICS, Candidate, Evaluation, Hardware, KernelTask
from tests.paths import read_source

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not gpu_present(), reason="no NVIDIA GPU on this machine")]


@pytest.fixture(scope="module")
def on_gpu() -> Iterator[LocalEvaluator]:
    with LocalEvaluator(device="gpu", timeout=60) as local:
        yield local


def task(h200: Hardware, problem: str, *, triton_only: bool = False) -> KernelTask:
    reference = read_source(f"problems/{problem}.py")
    return KernelTask(name=problem, reference=reference, target=h200, triton_only=triton_only)


def candidate(path: str) -> Candidate:
    source = read_source(path)
    return Candidate(source=source, author="test", stage="algorithmic_structure", mode="seed")


def rungs(evaluation: Evaluation) -> dict[str, str]:
    return {rung.name: f"{rung.outcome}: {rung.statement}" for rung in evaluation.rungs}


@pytest.mark.parametrize(
    ("path", "problem"),
    [("tricks/delegation/in_place_leaf.py", "matmul"), ("tricks/delegation/copying_leaf.py", "matmul")],
)
def test_a_kernel_for_show_is_no_kernel(on_gpu: LocalEvaluator, h200: Hardware, path: str, problem: str) -> None:
    evaluation = on_gpu.evaluate(task(h200, problem), candidate(path))
    assert evaluation.status == "invalid", (evaluation.reason, rungs(evaluation))
    assert "not_causal" in [finding.kind for finding in evaluation.findings]
    strict = on_gpu.evaluate(task(h200, problem, triton_only=True), candidate(path))
    assert "library_call" in [finding.kind for finding in strict.findings]


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("right/live_graph.py", "softmax"),
        ("right/kept_kernel.py", "softmax"),
        ("right/library_product_triton_tail.py", "matmul_relu_bias"),
        ("right/matmul_split_k.py", "matmul"),
        ("right/places_looked_up.py", "calibrated"),
    ],
)
def test_every_way_to_launch_an_own_kernel_is_seen(
    on_gpu: LocalEvaluator, h200: Hardware, path: str, problem: str
) -> None:
    evaluation = on_gpu.evaluate(task(h200, problem), candidate(path))
    assert evaluation.usable, (evaluation.reason, rungs(evaluation))
    assert evaluation.integrity is not None
    assert evaluation.integrity.kernels
    assert evaluation.integrity.causal is True


def test_a_finalist_is_traced_and_sanitized(on_gpu: LocalEvaluator, h200: Hardware) -> None:
    evaluation = on_gpu.evaluate(task(h200, "softmax"), candidate("right/softmax_one_block.py"), finalist=True)
    assert evaluation.usable, (evaluation.reason, rungs(evaluation))
    told = rungs(evaluation)
    assert told["device_trace"].startswith("passed"), told["device_trace"]
    assert evaluation.triton_share == pytest.approx(1.0, abs=0.02)
    if shutil.which("compute-sanitizer"):
        assert told["sanitizer"].startswith("passed"), told["sanitizer"]
    assert "sanitizer_rest" not in told, told


@pytest.mark.skipif(not shutil.which("compute-sanitizer"), reason="compute-sanitizer is not on the PATH")
@pytest.mark.parametrize("path", ["reads_past_the_end.py", "reads_unwritten.py"])
def test_a_finalist_that_is_right_by_luck_is_found(on_gpu: LocalEvaluator, h200: Hardware, path: str) -> None:
    evaluation = on_gpu.evaluate(task(h200, "softmax"), candidate(f"bugs/{path}"), finalist=True)
    assert not evaluation.usable
    kinds = {finding.kind for finding in evaluation.findings}
    assert kinds & {"out_of_bounds", "uninitialised_read", "unwritten_output", "wrong_values", "non_finite"}, kinds


def test_every_metric_exists_here_or_says_why(h200: Hardware) -> None:
    with LocalEvaluator(device="gpu", timeout=60, profile=True) as local:
        evaluation = local.evaluate(task(h200, "matmul"), candidate("right/matmul_split_k.py"))
    found = evaluation.profile
    assert set(found.metrics) >= {name for names in STAGE_METRICS.values() for name in names}
    assert found.kernel == "matmul_kernel"
    assert all(metric.unit or metric.missing for metric in found.metrics.values())
    if shutil.which("ncu") is None:
        assert found.source == "cupti"
        assert "ncu" in found.why
        return
    assert found.source == "ncu", found.why
    assert "(imported after 0." in rungs(evaluation)["profile"], "it had started, and waited"
    missing = {name: metric.missing for name, metric in found.metrics.items() if metric.missing}
    assert all("load-store unit" in why for why in missing.values()), missing


@pytest.mark.skipif(not shutil.which("ncu"), reason="ncu is not on the PATH")
def test_a_profiler_waits_without_the_gpu(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    fork_server = ForkServer(interpret=False, folder=tmp_path_factory.mktemp("fork_server"))
    try:
        with WaitingProfiler(fork_server, tmp_path, None) as profiler:
            profiler.make_ready(["k"])
            assert profiler.waits and (tmp_path / READY).exists()
            opened = files_opened_by_processes_in(tmp_path)
            assert not [path for path in opened if path.startswith("/dev/nvidia-uvm")], "a context opens it"
        assert not files_opened_by_processes_in(tmp_path)
    finally:
        fork_server.stop()


def files_opened_by_processes_in(folder: Path) -> list[str]:
    opened = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and os.readlink(entry / "cwd") == str(folder):
                opened += [os.readlink(file) for file in (entry / "fd").iterdir()]
    return opened


def test_a_judged_kernel_is_profiled_for_another_stage(h200: Hardware) -> None:
    with LocalEvaluator(device="gpu", timeout=60, profile=True) as local:
        judged = local.evaluate(task(h200, "matmul"), candidate("right/matmul_split_k.py"), stage="parallel_mapping")
        found = local.profile(
            task(h200, "matmul"), candidate("right/matmul_split_k.py"), judged, stage="memory_optimization"
        )
    assert set(judged.profile.metrics) >= set(STAGE_METRICS["parallel_mapping"])
    assert set(found.metrics) >= set(STAGE_METRICS["memory_optimization"])
    assert (found.source, found.kernel) == (judged.profile.source, judged.profile.kernel), found.why
    assert found.metrics["gpu__time_duration.sum"].value


def test_without_ncu_the_device_is_traced(monkeypatch: pytest.MonkeyPatch, h200: Hardware) -> None:
    kept = [folder for folder in os.environ["PATH"].split(os.pathsep) if not (Path(folder) / "ncu").exists()]
    monkeypatch.setenv("PATH", os.pathsep.join(kept))
    with LocalEvaluator(device="gpu", timeout=60, profile=True) as local:
        evaluation = local.evaluate(task(h200, "softmax"), candidate("right/softmax_one_block.py"))
    assert evaluation.usable, evaluation.reason
    found = evaluation.profile
    assert found.source == "cupti", found.why
    assert "ncu is not on the PATH" in found.why
    assert found.metrics["gpu__time_duration.sum"].value
    assert found.metrics["sm__inst_executed.sum"].missing

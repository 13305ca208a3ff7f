"""GPUs have names, and a judge sees only the one that it was given."""

import subprocess

import pytest

from egg_graph.evaluator import LocalEvaluator
from egg_graph.evaluator.device.detect import resolve_gpu, visible_gpus
from egg_graph.evaluator.device.nvml import Driver
from egg_graph.schema import BadInput


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver(names=("NVIDIA H200",) * 2, uuids=("GPU-aaaa-1", "GPU-bbbb-2"))
    monkeypatch.setattr("egg_graph.evaluator.device.detect.query_driver", lambda: driver)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def test_gpus_have_names_and_the_environment_chooses_among_them(two_gpus: None) -> None:
    assert visible_gpus({}) == ("GPU-aaaa-1", "GPU-bbbb-2")
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": "1"}) == ("GPU-bbbb-2",)
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": "GPU-bb,0"}) == ("GPU-bbbb-2", "GPU-aaaa-1")
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": "0,7,1"}) == ("GPU-aaaa-1",), "as CUDA does"
    assert visible_gpus({"CUDA_VISIBLE_DEVICES": ""}) == ()
    assert resolve_gpu(1) == resolve_gpu("GPU-bbbb") == "GPU-bbbb-2"
    assert resolve_gpu("MIG-1234") == "MIG-1234"


def test_a_judge_sees_only_the_gpu_it_was_given(two_gpus: None, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, str]] = []

    def start(*args: object, env: dict[str, str], **kwargs: object) -> subprocess.Popen[bytes]:
        seen.append(env)
        raise OSError("far enough")

    monkeypatch.setattr("egg_graph.evaluator.client.subprocess.Popen", start)
    with pytest.raises(OSError, match="far enough"):
        LocalEvaluator(gpu=1).environment()
    assert seen[0]["CUDA_VISIBLE_DEVICES"] == "GPU-bbbb-2"
    with pytest.raises(BadInput, match="give one of the two"):
        LocalEvaluator(gpu=1, device="none")

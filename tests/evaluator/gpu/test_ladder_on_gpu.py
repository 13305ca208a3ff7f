"""The same promises on a GPU."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from egg_graph.bench.trust.headers import read_entries
from egg_graph.evaluator import LocalEvaluator, gpu_present
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.schema import Candidate, Hardware, KernelTask
from tests.paths import CORPUS, read_source

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not gpu_present(), reason="no NVIDIA GPU on this machine")]

SOFTMAX = (
    "import torch\nimport torch.nn as nn\n\nclass Model(nn.Module):\n    def forward(self, x):\n"
    "        return torch.softmax(x, dim=1)\n\nrows = 8192\nwidth = 8192\n\n"
    "def get_inputs():\n    return [torch.randn(rows, width)]\n"
)
MATMUL = (
    "import torch\nimport torch.nn as nn\n\nclass Model(nn.Module):\n    def __init__(self, k, n):\n"
    "        super().__init__()\n        self.linear = nn.Linear(k, n)\n\n    def forward(self, x):\n"
    "        return nn.functional.gelu(self.linear(x))\n\nm = 2048\nk = 2048\nn = 4096\n\n"
    "def get_inputs():\n    return [torch.rand(m, k)]\n\ndef get_init_inputs():\n    return [k, n]\n"
)


def candidate(name: str) -> Candidate:
    source = read_source(name)
    return Candidate(source=source, author="test", stage="algorithmic_structure", mode="seed")


DRAWN = (
    "import torch\nimport torch.nn as nn\n\nclass Model(nn.Module):\n    def __init__(self, n):\n"
    "        super().__init__()\n        self.linear = nn.Linear(n, n)\n        weight = self.linear.weight\n"
    "        if type(weight.data) is torch.Tensor and n == 512:\n"
    "            open(PLACES, 'a').write(weight.device.type + '\\n')\n\n"
    "    def forward(self, x):\n        return self.linear(x)\n\nn = 512\n\n"
    "def get_inputs():\n    return [torch.randn(64, n)]\n\ndef get_init_inputs():\n    return [n]\n"
)


@pytest.fixture(scope="module")
def on_gpu() -> Iterator[LocalEvaluator]:
    with LocalEvaluator(device="gpu", timeout=60) as local:
        yield local


@pytest.mark.parametrize(
    ("name", "reference"), [("right/softmax_one_block.py", SOFTMAX), ("right/matmul_bias_gelu.py", MATMUL)]
)
def test_a_right_kernel_is_timed_against_pytorch(
    on_gpu: LocalEvaluator, h200: Hardware, name: str, reference: str
) -> None:
    task = KernelTask(name=name, reference=reference, target=h200)
    baseline = on_gpu.baseline(task)
    assert baseline.eager_ms is not None
    assert baseline.unevaluable == ""
    evaluation = on_gpu.evaluate(task, candidate(name))
    assert evaluation.status in ("faster", "inconclusive", "slower"), evaluation.reason
    timing = evaluation.timing
    assert timing is not None
    assert timing.pairs >= 30
    assert timing.ratio_low <= timing.ratio <= timing.ratio_high
    assert timing.candidate_ms > baseline.floor_ms
    assert evaluation.triton_share is not None
    assert evaluation.triton_share > 0.8
    assert evaluation.resources[0].registers
    assert {check.name for check in evaluation.checks} >= {"full", "awkward"}
    assert timing.checked_calls >= timing.pairs
    assert evaluation.bound is not None, evaluation.not_proven
    assert baseline.floor_ms <= evaluation.bound.milliseconds * 1.001
    assert evaluation.bound.milliseconds < timing.candidate_ms


def test_the_same_kernel_measures_the_same_twice(on_gpu: LocalEvaluator, h200: Hardware) -> None:
    task = KernelTask(name="softmax", reference=SOFTMAX, target=h200)
    first, second = (on_gpu.evaluate(task, candidate("right/softmax_one_block.py")).timing for _ in range(2))
    assert first is not None
    assert second is not None
    assert first.candidate_ms == pytest.approx(second.candidate_ms, rel=0.05)
    assert first.ratio_high - first.ratio_low < 0.1 * first.ratio


WRONG = {
    "faults/wrong_answer.py": SOFTMAX,
    "bugs/mask_one_short.py": SOFTMAX,
    "faults/unwritten_output.py": SOFTMAX,
    "faults/bf16_misuse.py": SOFTMAX,
    "faults/tf32_truncation.py": MATMUL,
    "faults/exit_zero.py": SOFTMAX,
    "faults/segfault.py": SOFTMAX,
    "faults/writes_input.py": SOFTMAX,
    "faults/unused_kernel.py": SOFTMAX,
    "faults/weights_renamed.py": MATMUL,
    "faults/too_much_shared_memory.py": MATMUL,
    "faults/raises.py": SOFTMAX,
}


@pytest.mark.parametrize("name", WRONG)
def test_planted_faults_on_the_gpu(on_gpu: LocalEvaluator, h200: Hardware, name: str) -> None:
    (entry,) = read_entries([CORPUS / name])
    evaluation = on_gpu.evaluate(KernelTask(name=name, reference=WRONG[name], target=h200), candidate(name))
    assert not evaluation.usable
    assert evaluation.findings[0].kind in entry.header.finding, evaluation.findings


def test_a_kernel_that_never_ends_is_ended_and_the_gpu_recovers(h200: Hardware) -> None:
    task = KernelTask(name="softmax", reference=SOFTMAX, target=h200)
    with LocalEvaluator(device="gpu", timeout=15) as own:
        assert own.evaluate(task, candidate("faults/infinite_kernel.py")).status == "timeout"
        assert own.evaluate(task, candidate("right/softmax_one_block.py")).usable


def test_screening_times_each_configuration_and_runs_none_that_spills_much(
    on_gpu: LocalEvaluator, h200: Hardware
) -> None:
    task = KernelTask(name="matmul", reference=MATMUL, target=h200)
    source = read_source("right/matmul_bias_gelu.py")
    sources = [
        source,
        source.replace('"BLOCK_M": 64', '"BLOCK_M": 128'),
        source.replace('"BLOCK_M": 64', '"BLOCK_M": 48'),
        source.replace('"BLOCK_M": 64, "BLOCK_N": 64', '"BLOCK_M": 256, "BLOCK_N": 256').replace('s": 3', 's": 1'),
        source.replace('"num_stages": 3', '"num_stages": 30'),
    ]
    trials = on_gpu.screen(task, [Candidate(source=s, author="t", stage="tensor_tiling", mode="tune") for s in sources])
    assert [trial.status for trial in trials[:2]] == ["correct", "correct"]
    assert all(trial.milliseconds for trial in trials[:2])
    assert all(trial.merit[0] == 0.0 and trial.resources[0].occupancy for trial in trials[:2])
    assert trials[2].status in ("compile_error", "runtime_error")
    assert (trials[3].status, trials[3].resources[0].registers) == ("pruned", 255)
    assert "spills" in trials[3].reason and trials[3].milliseconds is None
    assert trials[4].status == "compile_error" and "shared memory" in trials[4].reason


def test_weights_of_full_size_are_drawn_on_the_gpu(tmp_path: Path, h200: Hardware) -> None:
    places = tmp_path / "places"
    task = KernelTask(name="drawn", reference=f"PLACES = {str(places)!r}\n{DRAWN}", target=h200)
    assert Problem(task, 0, torch.device("cuda")).untimed_baseline.unevaluable == ""
    assert set(places.read_text().split()) == {"cuda"}

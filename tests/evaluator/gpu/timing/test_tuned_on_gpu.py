"""Tuned PyTorch on a GPU: every switch gives a right answer, and eager PyTorch takes afterwards what it took before."""

from pathlib import Path

import pytest

from egg_graph.evaluator import LocalEvaluator, gpu_present
from egg_graph.schema import Hardware, KernelTask

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not gpu_present(), reason="no NVIDIA GPU on this machine")]

CONVOLUTION = (
    "import torch\nfrom torch import nn\n\nclass Model(nn.Module):\n    def __init__(self, c, k):\n"
    "        super().__init__()\n        self.conv = nn.Conv3d(c, k, 3)\n\n    def forward(self, x):\n"
    "        return torch.relu(self.conv(x))\n\nbatch = 8\nc = 16\nk = 32\n\ndef get_inputs():\n"
    "    return [torch.randn(batch, c, 16, 64, 64)]\n\ndef get_init_inputs():\n    return [c, k]\n"
)


def test_switches_are_measured_and_leave_nothing_behind(
    h200: Hardware, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    task = KernelTask(name="convolution", reference=CONVOLUTION, target=h200, precision="tf32")
    with LocalEvaluator(device="gpu") as first:
        before = first.baseline(task)
        tuned = first.baseline(task, tuned=True).tuned
    assert before.eager_ms is not None and before.tuned is None and tuned is not None
    *cheap, autotuned = tuned.trials
    assert [trial.outcome for trial in cheap] == ["timed"] * 6, tuned.failures
    assert autotuned.forward == "max-autotune" and autotuned.outcome in ("timed", "wrong", "limit"), tuned.failures
    assert tuned.milliseconds is not None and tuned.gain is not None and tuned.gain >= 1
    with LocalEvaluator(device="gpu") as second:
        after = second.baseline(task, tuned=True)
    assert after.eager_ms == pytest.approx(before.eager_ms, rel=0.05)
    assert after.tuned is not None
    if after.tuned.kept:  # nothing is kept where Landlock cannot keep candidates out
        assert after.tuned == tuned.model_copy(update={"kept": True})

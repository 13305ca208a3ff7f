"""A whole run on a GPU, as users make it: the embedded expert, the real evaluator, the time and memory of each part."""

import pytest

from egg_graph import optimize
from egg_graph.evaluator import gpu_present
from egg_graph.schema.spending import Part
from tests.paths import EXAMPLES

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not gpu_present(), reason="no NVIDIA GPU on this machine")]


@pytest.mark.parametrize("name", ["softmax", "gelu_mlp"])
def test_the_expert_ends_with_a_right_kernel_and_the_ledger_with_all_its_time(name, tmp_path):
    run = optimize(EXAMPLES / f"{name}.py", runs_dir=tmp_path, precision="tf32", accept="right")
    assert run.evaluation is not None and run.evaluation.usable, run.verdict
    assert run.ledger is not None and run.ledger.parts["other"] < 0.1 * run.ledger.seconds
    measured: tuple[Part, ...] = ("capture", "compile", "correctness", "timing", "profile", "sanitizer")
    assert not [part for part in measured if not run.ledger.parts[part]]
    assert run.ledger.memory.judge_bytes and run.ledger.memory.baseline_bytes

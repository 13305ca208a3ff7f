"""Capturing a reference: in a child process, and what is captured."""

import subprocess
import sys

import pytest

from egg_graph.evaluator import hear_progress
from egg_graph.expert import CannotCapture, capture_graph
from egg_graph.expert.capture.export import export_graph
from egg_graph.expert.capture.graph import CapturedGraph
from egg_graph.expert.capture.process import _capture
from egg_graph.knowledge import load_hardware
from egg_graph.schema import BadInput, KernelTask
from tests.expert.references import CASES, IMAGE, module

pytestmark = pytest.mark.slow


def task(source: str, **options) -> KernelTask:
    return KernelTask(name="case", reference=source, target=load_hardware("h200"), **options)


@pytest.fixture(scope="module")
def group_norm() -> CapturedGraph:
    return capture_graph(task(CASES["group_norm"].source))


def test_graph_is_in_primitives_with_all_captures(group_norm):
    assert "aten.mean.dim" in group_norm.operators and "aten.silu.default" in group_norm.operators
    assert not any("group_norm" in op for op in group_norm.operators)
    assert len(group_norm.knobs) >= 3 and group_norm.knobs[0] == {}
    assert all(len(node.shapes) == len(group_norm.knobs) for node in group_norm.nodes)
    assert {p.text for p in group_norm.placeholders} == {"x", "self.norm.weight", "self.norm.bias"}
    assert group_norm.attributes["norm.num_groups"] == (4,) * len(group_norm.knobs)


def test_graph_survives_json(group_norm):
    assert CapturedGraph.model_validate_json(group_norm.model_dump_json()) == group_norm


def test_convexity(group_norm):
    names = [node.name for node in group_norm.nodes]
    assert group_norm.is_convex(names)
    view, mean, sub = names[0], "mean", "sub"
    assert group_norm.is_convex([view, mean, sub])
    assert not group_norm.is_convex([view, sub]), "mean lies between them"


def test_captured_once_per_source(group_norm):
    hits = _capture.cache_info().hits
    assert capture_graph(task(CASES["group_norm"].source)) is group_norm
    assert _capture.cache_info().hits == hits + 1


def test_policy_decides_the_dtype():
    graph = export_graph(module("return torch.softmax(x, -1)"), "bf16")
    assert graph.placeholders[0].dtype == "bfloat16"


def test_training_statistics_are_effects():
    graph = export_graph(module("return self.norm(x)", init="self.norm = nn.BatchNorm2d(C)", **IMAGE), "ieee")
    assert set(graph.mutations) == {"norm.running_mean", "norm.running_var", "norm.num_batches_tracked"}


def test_a_reference_that_does_not_load_is_bad_input():
    with pytest.raises(BadInput, match="line 7"):
        capture_graph(task("import torch\nimport torch.nn as nn\nclass Model(nn.Module):\n    def forward(self, x):\n"
                     "        return x\n\nboom = 1 / 0\ndef get_inputs():\n    return [torch.rand(4)]\n"))  # fmt: skip


def test_control_flow_on_values_has_no_graph():
    told = []
    with pytest.raises(CannotCapture), hear_progress(lambda progress: told.append(progress.doing)):
        capture_graph(task(module("if x.sum() > 0:\n    return x\nreturn -x")))
    assert told == ["captures what the reference computes"]


def test_importing_the_expert_loads_no_torch():
    code = (
        "import sys, egg_graph.expert, egg_graph.expert.roles.team, egg_graph.expert.playbooks.registry\n"
        "assert not {'torch', 'triton', 'openai'} & set(sys.modules), sorted(sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).returncode == 0

"""Capturing a reference: in a child process, and what is captured."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from egg_graph.evaluator import hear_progress
from egg_graph.expert import CannotCapture, EmbeddedExpert, capture_graph
from egg_graph.expert.capture.export import LARGE_GRAPH, export_graph
from egg_graph.expert.capture.graph import CapturedGraph
from egg_graph.expert.capture.process import CaptureProcess, _capture, running_process
from egg_graph.expert.codegen.sizes import forward_scope
from egg_graph.knowledge import load_hardware
from egg_graph.schema import BadInput, InfrastructureError, KernelTask
from tests.expert.references import CASES, IMAGE, module
from tests.lab.commands import lab
from tests.sample import thorough

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


def test_only_a_stack_of_few_is_taken_apart():
    graph = export_graph(module("return torch.stack([x] * 4, -1), torch.stack([x] * 5, -1)"), "ieee")
    assert [graph[output].op for output in sorted(graph.answers)] == ["aten.cat.default", "aten.stack.default"]


def test_training_statistics_are_effects():
    graph = export_graph(module("return self.norm(x)", init="self.norm = nn.BatchNorm2d(C)", **IMAGE), "ieee")
    assert set(graph.mutations) == {"norm.running_mean", "norm.running_var", "norm.num_batches_tracked"}


def test_a_tensor_just_held_may_be_replaced():
    """It is no buffer, and stays none."""
    graph = export_graph(
        module("self.last = self.last * 0.5 + x.sum(0)\nreturn self.last", init="self.last = torch.zeros(C)"), "ieee"
    )
    assert set(graph.mutations) == {"last"}
    assert {p.target: p.kind for p in graph.placeholders} == {"x": "input", "last": "constant"}


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


def test_a_recurrence_stays_one_operator():
    """Its steps unrolled would be some twenty thousand operators."""
    graph = capture_graph(task(module("return self.gru(x)[0]", init="self.gru = nn.GRU(C, C, 2)",
                                      inputs="torch.randn(T, 2, C)", sizes="T, C = 512, 32")))  # fmt: skip
    assert graph.operators == ("aten.zeros.default", "aten.gru.input") and len(graph.knobs) > 1


@thorough
def test_a_number_of_layers_is_no_size():
    layers = "self.layers = nn.Sequential(*(nn.Linear(C, C) for _ in range(DEPTH)))"
    graph = capture_graph(task(module("return self.layers(x)", init=layers, sizes="N, C, DEPTH = 64, 128, 12")))
    assert len(graph.knobs) > 1 and all("DEPTH" not in knobs for knobs in graph.knobs)


def test_numbers_that_shrink_together_to_their_defaults_are_told_apart():
    """At a stride and a dilation of 1 the exported call has neither argument, and the two are equal."""
    up = "self.up = nn.ConvTranspose3d(C, C, 2, S, 1, dilation=D, bias=False)"
    graph = export_graph(module("return self.up(x)", init=up, inputs="torch.randn(2, C, W, W, W)",
                                sizes="W, C, S, D = 20, 17, 2, 2"), "ieee")  # fmt: skip
    assert graph.notes == () and {"D": 1} in graph.knobs
    smaller = [knobs for knobs in graph.knobs if knobs.get("S") == 1]
    assert len(smaller) == 2 and all(knobs["D"] == 1 for knobs in smaller)
    for argument, knob in ((3, "S"), (7, "D")):
        assert graph.nodes[0].args[argument] == [{"sizes": [knobs.get(knob, 2) for knobs in graph.knobs]}] * 3


def test_the_process_stays_whatever_a_reference_does():
    capture_graph(task(module("return x + 1.0")))
    first = running_process()
    with pytest.raises(InfrastructureError, match="died without an answer: farewell"):
        capture_graph(task("print('farewell', flush=True)\nimport os\nos._exit(3)\n" + module("return x + 2.0")))
    assert "aten.add.Tensor" in capture_graph(task(module("return x + 3.0"))).operators
    assert running_process() == first is not None


def test_a_reference_that_takes_too_long_ends_its_process(monkeypatch):
    capture_graph(task(module("return x + 1.0")))
    monkeypatch.setattr("egg_graph.expert.capture.process.TIMEOUT", 0.5)
    with pytest.raises(InfrastructureError, match="more than"):
        capture_graph(task("import time\ntime.sleep(60)\n" + module("return x + 2.0")))
    assert running_process() is None


def test_an_expert_that_gets_ready_captures_before_it_is_asked(monkeypatch):
    captured = []
    capture = CaptureProcess.capture
    monkeypatch.setattr(CaptureProcess, "capture", lambda *given: captured.append(1) or capture(*given))
    wanted = task(module("return x + 4.5"))
    EmbeddedExpert().get_ready(wanted)
    while not captured:
        time.sleep(0.01)
    assert "aten.add.Tensor" in capture_graph(wanted).operators and "aten.add.Tensor" in capture_graph(wanted).operators
    assert captured == [1], "captured once, in the background"


def test_what_spoils_a_capture_in_the_background_is_raised_to_whoever_asks():
    spoilt = task("print('farewell', flush=True)\nimport os\nos._exit(3)\n" + module("return x + 5.5"))
    EmbeddedExpert().get_ready(spoilt)
    with pytest.raises(InfrastructureError, match="died without an answer: farewell"):
        capture_graph(spoilt)


def test_the_laboratory_tells_outcome_and_seconds_of_every_file(tmp_path):
    (tmp_path / "plain.py").write_text(module("return x + 1.0"))
    (tmp_path / "missing.py").write_text("import nowhere_installed\n" + module("return x + 1.0"))
    told = CliRunner().invoke(lab, ["capture", str(tmp_path), "--out", str(tmp_path / "rows")])
    assert told.exit_code == 0, told.output
    rows = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert [(row["outcome"], row["operators"]) for row in rows] == [("bad input", 0), ("captured", 1)]
    assert "line 1: it imports nowhere_installed" in (tmp_path / "rows.md").read_text()


@thorough
def test_nothing_is_left_when_the_interpreter_ends(tmp_path):
    (tmp_path / "reference.py").write_text(module("return x + 4.0"))
    code = (
        "import sys; from pathlib import Path; from egg_graph.expert import capture_graph\n"
        "from egg_graph.expert.capture.process import running_process\n"
        "from egg_graph.knowledge import load_hardware; from egg_graph.schema import KernelTask\n"
        "reference = Path(sys.argv[1]).read_text()\n"
        "capture_graph(KernelTask(name='case', reference=reference, target=load_hardware('h200')))\n"
        "print(running_process())"
    )
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    ended = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "reference.py")], capture_output=True, text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert not Path(f"/proc/{int(ended.stdout)}").exists() and not list(temporary.iterdir())


def test_a_size_that_divides_another_one_is_varied_too():
    source = module(
        "return x.view(x.shape[0], -1, self.block).sum(-1)", init="assert L % K == 0\nself.block = K",
        inputs="torch.randn(N, L)", sizes="N, L, K = 4, 128, 64",
    )  # fmt: skip
    graph = export_graph(source, "ieee")
    assert any(knobs.get("K", 64) < 64 < knobs.get("L", 128) for knobs in graph.knobs), graph.knobs
    assert len(set(graph.attributes["block"])) > 1


@thorough
def test_small_sizes_of_a_large_graph_are_told_apart_by_its_one_other_capture():
    source = module(
        "y = self.mix(x)\nfor _ in range(210):\n    y = torch.tanh(y) + 1\nreturn y",
        init="self.mix = nn.Conv2d(C, C, 1)", inputs="torch.randn(N, C, H, 16)", sizes="N, C, H = 8, 8, 32",
    )  # fmt: skip
    graph = export_graph(source, "ieee")
    assert len(graph.nodes) > 400 and len(graph.knobs) == 2
    batches, channels, rows, columns = zip(*graph["x"].shapes, strict=True)
    assert batches[0] == channels[0] and len({batches[1], channels[1], rows[1], columns[1]}) == 4, graph.knobs
    assert batches[1] != 8 != channels[1]


def test_sizes_of_a_middling_graph_are_told_apart_by_two_other_captures():
    """With one, a product of two sizes may grow as the width of a head does, and stand for it by chance."""
    source = module(
        "y = x.view(x.shape[0], -1, self.heads, x.shape[2] // self.heads)\n"
        "for _ in range(12):\n    y = torch.tanh(y) + 1\nreturn y",
        init="assert D % HEADS == 0 and T <= MOST\nself.heads = HEADS", inputs="torch.randn(N, T, D)",
        sizes="N, MOST, T, D, HEADS = 128, 1024, 512, 768, 8",
    )  # fmt: skip
    graph = export_graph(source, "ieee")
    assert len(graph.nodes) > LARGE_GRAPH and len(graph.knobs) == 3
    width = graph["view"].size(3)
    assert forward_scope(graph).express(width) == "(x.shape[2] // self.heads)", (graph.knobs, width)


def test_a_batch_norm_over_planes_is_written_out_once_for_all_shapes():
    graph = export_graph(module("return self.norm(x)", init="self.norm = nn.BatchNorm2d(C)", **IMAGE), "ieee")
    assert not any("batch_norm" in node.op for node in graph.nodes)
    assert graph.mutations["norm.running_mean"] == "norm_running_mean" and graph["norm"].shapes == graph["x"].shapes
    assert [node.op for node in graph.nodes].count("aten.var.correction") == 2

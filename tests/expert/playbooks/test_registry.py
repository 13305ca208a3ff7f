"""The registry of playbooks: a playbook is one file and one line, and the page lists what it holds."""

import pytest

from egg_graph.evaluator import LocalEvaluator
from egg_graph.expert import EmbeddedExpert, Playbook, add_playbook, guidance_for
from egg_graph.expert.codegen.plan import read_plan
from egg_graph.expert.playbooks import registry
from egg_graph.expert.playbooks.page import page
from egg_graph.knowledge import load_hardware, load_principles
from egg_graph.schema import BadInput, Baseline, Brief, Candidate, Evaluation, KernelTask
from egg_graph.tuning import read_knobs
from tests.expert.playbooks.toy_playbook import HypotPlaybook
from tests.paths import ROOT

REFERENCE = """import torch
from torch import nn

ROWS, COLUMNS = 64, 96


class Model(nn.Module):
    def forward(self, x, y):
        return torch.hypot(x, y)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS), torch.randn(ROWS, COLUMNS)]
"""
TASK = KernelTask(name="hypot", reference=REFERENCE, target=load_hardware("h200"))
BRIEF = Brief(
    task=TASK,
    baseline=Baseline(task=TASK.digest, floor_ms=0.01, operators=("aten.hypot.default",)),
    stage="algorithmic_structure",
    objective="",
    mode="seed",
)


@pytest.fixture(autouse=True)
def shipped_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what a test adds."""
    monkeypatch.setattr(registry, "_registered", registry.PLAYBOOKS)


@pytest.mark.slow
def test_a_playbook_is_one_file_and_one_line(evaluator: LocalEvaluator) -> None:
    expert = EmbeddedExpert()
    assert "no playbook matches" in expert.write(BRIEF).problem

    add_playbook(HypotPlaybook())

    draft = expert.write(BRIEF)
    assert read_plan(draft.source) == ({"hypot": ""}, ())
    config, space, dropped = read_knobs(draft.source)
    assert not dropped
    assert config == {"hypot_BLOCK": 256} and list(space) == ["tensor_tiling"]
    kernel = Candidate(
        source=draft.source, author=expert.name, stage="algorithmic_structure", mode="seed", config=config, space=space
    )
    assert evaluator.evaluate(TASK, kernel).status == "correct"
    broken = Evaluation(candidate=kernel.id, task=TASK.digest, status="incorrect", reason="differs")
    diagnosis = expert.debug(BRIEF.model_copy(update={"mode": "repair", "kernel": kernel, "evaluation": broken}))
    assert diagnosis.modification_plan.startswith("Take hypot back to PyTorch")
    assert guidance_for(BRIEF.baseline.operators) == {"hypot": HypotPlaybook.guidance}


def test_a_playbook_gets_its_turn_where_it_is_put() -> None:
    add_playbook(HypotPlaybook(), before="row")
    names = [playbook.name for playbook in registry.playbooks()]
    assert names.index("hypot") == names.index("row") - 1
    assert list(registry.playbooks_by_name()) == names


@pytest.mark.parametrize(("name", "before"), [("row", "row"), ("two words", "row"), ("hypot", "nobody")])
def test_a_playbook_that_cannot_be_told_apart_is_refused(name: str, before: str) -> None:
    playbook = HypotPlaybook()
    playbook.name = name
    with pytest.raises(BadInput):
        add_playbook(playbook, before)
    assert registry.playbooks() == registry.PLAYBOOKS


@pytest.mark.parametrize(
    ("operators", "told"),
    [
        (("aten.addmm.default", "aten.gelu.default"), ["gemm", "pointwise"]),
        (("aten._softmax.default",), ["row", "column"]),
        (("aten.native_layer_norm.default",), ["row"]),
        (("aten.sub.Tensor", "aten.mul.Tensor", "aten.sum.default"), ["row", "column", "full_reduction", "pointwise"]),
        (("aten.bmm.default", "aten._softmax.default", "aten.bmm.default"), ["attention", "gemm", "row", "column"]),
        (("aten._scaled_dot_product_flash_attention.default",), ["attention"]),
        (("aten.cumsum.default",), ["scan"]),
        (("aten.convolution.default",), ["convolution"]),
        ((), []),
    ],
)
def test_guidance_follows_the_operators(operators: tuple[str, ...], told: list[str]) -> None:
    assert list(guidance_for(operators)) == told


@pytest.mark.parametrize("playbook", registry.PLAYBOOKS, ids=lambda playbook: playbook.name)
def test_a_playbook_describes_itself(playbook: Playbook) -> None:
    assert playbook.operators and playbook.complexity
    assert 40 <= len(playbook.guidance.split()) <= 120, "a few lines, as prompts show them"
    assert {a.variant for a in playbook.alternatives} <= {*playbook.variants, "library"}
    assert {p for a in playbook.alternatives for p in a.principles} <= {p.id for p in load_principles()}


def test_the_page_is_written_from_the_registry() -> None:
    written = ROOT / "docs" / "playbooks.md"
    assert written.read_text(encoding="utf-8") == page(), "write it anew: make docs"

"""Flops of the reference: every operator that runs is counted, or told as one that could not be."""

import pytest
import torch
from torch.utils import flop_counter

from egg_graph.evaluator import load_reference
from egg_graph.evaluator.evidence.statements import floor_words, uncounted_words
from egg_graph.evaluator.problem.forward_summary import summarize_forward
from egg_graph.evaluator.wire.launches import FakeRun, LibraryCall
from egg_graph.evaluator.wire.product_flops import product_flops
from egg_graph.knowledge import load_hardware
from egg_graph.schema import Baseline, KernelTask

GROUPED = """
import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    def forward(self, query, key, value):
        return F.scaled_dot_product_attention(query, key, value, enable_gqa=True)

def get_inputs():
    return [torch.rand(2, 8, 64, 32), torch.rand(2, 2, 48, 32), torch.rand(2, 2, 48, 32)]

def get_init_inputs():
    return []
"""
FLOPS = 2 * 2 * 8 * 64 * 48 * (32 + 32)
PRODUCT = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, a, b):
        return torch.bmm(a, b) @ b[0]

def get_inputs():
    return [torch.rand(2, 8, 8), torch.rand(2, 8, 8)]

def get_init_inputs():
    return []
"""


def summary_of(reference: str) -> Baseline:
    task = KernelTask(name="counted", reference=reference, target=load_hardware("h200"))
    return summarize_forward(task, load_reference(reference))


def asserts(*args: object, **kwargs: object) -> int:
    """What a formula does on shapes that it does not foresee."""
    raise AssertionError


@pytest.fixture
def equal_heads_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch 2.11's formula asserts that query and key have as many heads."""
    monkeypatch.setattr(flop_counter, "sdpa_flop_count", asserts)


@pytest.mark.usefixtures("equal_heads_alone")
def test_attention_with_grouped_queries_counts_all_heads_of_the_query() -> None:
    summary = summary_of(GROUPED)
    assert summary.flops == FLOPS and not summary.uncounted


@pytest.mark.usefixtures("equal_heads_alone")
@pytest.mark.parametrize("name", ["flash", "efficient", "cudnn"])
def test_a_gpus_attention_with_grouped_queries_is_counted_by_its_shapes(name: str) -> None:
    operator = getattr(torch.ops.aten, f"_scaled_dot_product_{name}_attention")
    assert product_flops(operator, load_reference(GROUPED).inputs(0), {}, None) == FLOPS


def test_a_formula_that_fails_makes_no_task_bad_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    known = summary_of(PRODUCT)
    assert known.flops == 2 * 2 * 8**3 * 2 and "left out" not in floor_words(known)
    monkeypatch.setitem(flop_counter.flop_registry, torch.ops.aten.bmm, asserts)
    summary = summary_of(PRODUCT)
    assert summary.uncounted == ("aten.bmm",)
    assert summary.flops == known.flops / 2 and summary.floor_ms <= known.floor_ms
    assert "those of aten.bmm left out: they cannot be counted" in floor_words(summary)


def test_a_bound_says_which_library_operators_it_takes_as_free() -> None:
    calls = [LibraryCall(name=f"aten.{name}", bytes=1.0, counted=name == "mm") for name in ("mm", "bmm")]
    assert "aten.bmm computed nothing" in uncounted_words(FakeRun(launches=(), library=tuple(calls)))
    assert not uncounted_words(FakeRun(launches=(), library=tuple(calls[:1])))

"""How an answer came about, without a GPU: replays, kept buffers, stale weights, kernels that do not matter."""

from types import SimpleNamespace

import pytest
import torch

from egg_graph.evaluator.problem.comparison import judge_strides, stride_notes
from egg_graph.evaluator.wire.leaf import describe_leaf
from egg_graph.schema import Candidate, KernelTask
from tests.sample import in_sample

pytestmark = pytest.mark.slow

REFERENCE = """
import torch
import torch.nn as nn

ROWS, COLUMNS = 256, 512


class Model(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(columns))

    def forward(self, x):
        return torch.exp(x) * self.scale


def get_inputs():
    return [torch.rand(ROWS, COLUMNS)]


def get_init_inputs():
    return [COLUMNS]
"""
KERNEL = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, scale_ptr, out_ptr, n, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    inside = columns < n
    x = tl.load(x_ptr + tl.program_id(0) * n + columns, mask=inside)
    scale = tl.load(scale_ptr + columns, mask=inside)
    tl.store(out_ptr + tl.program_id(0) * n + columns, tl.exp(x) * scale, mask=inside)


def launch(x, scale, out):
    kernel[(x.shape[0],)](x, scale, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(columns))
        self.kept = {}

    def forward(self, x):
"""
HONEST = "return launch(x, self.scale, torch.empty_like(x))"
FORWARDS = {
    "right": (HONEST, "correct", None),
    "memo": (
        "key = (x.data_ptr(), x._version, x.shape)\n"
        "if key not in self.kept:\n"
        "    self.kept[key] = launch(x, self.scale, torch.empty_like(x))\n"
        "return self.kept[key].clone()",
        "invalid",
        "replayed_output",
    ),
    "stale": (
        "if 'scale' not in self.kept:\n    self.kept['scale'] = self.scale.clone()\n"
        "return launch(x, self.kept['scale'], torch.empty_like(x))",
        "incorrect",
        "wrong_values",
    ),
    "one buffer": (
        "if x.shape not in self.kept:\n    self.kept[x.shape] = torch.empty_like(x)\n"
        "return launch(x, self.scale, self.kept[x.shape])",
        "incorrect",
        "aliased_output",
    ),
    "weights spoilt": (
        "out = launch(x, self.scale, torch.empty_like(x))\nself.scale.data.mul_(1.0001)\nreturn out",
        "incorrect",
        "parameter_mutated",
    ),
    "fig leaf": (
        "launch(x, self.scale, torch.empty_like(x))\nreturn torch.exp(x) * self.scale",
        "invalid",
        "not_causal",
    ),
    "giant": (  # terabytes if it were copied
        "return launch(x, self.scale, torch.empty_like(x)).unsqueeze(0).expand(1 << 24, *x.shape)",
        "incorrect",
        "wrong_shape",
    ),
    "sparse": ("return launch(x, self.scale, torch.empty_like(x)).to_sparse()", "incorrect", "wrong_structure"),
    "gaps": (
        "wide = torch.empty(x.shape[0], x.shape[1] + 8, device=x.device, dtype=x.dtype)\n"
        "wide[:, : x.shape[1]] = launch(x, self.scale, torch.empty_like(x))\nreturn wide[:, : x.shape[1]]",
        "correct",  # told
        None,
    ),
    "half": ("return launch(x, self.scale, torch.empty_like(x)).half()", "incorrect", "wrong_dtype"),
    "weight replaced": (
        "out = launch(x, self.scale, torch.empty_like(x))\n"
        "self.scale = nn.Parameter(self.scale[:1].expand(1 << 40), requires_grad=False)\nreturn out",
        "incorrect",
        "parameter_mutated",
    ),
    "sign": (
        "return launch(x.abs(), self.scale, torch.empty_like(x))",
        "incorrect",
        "wrong_values",
    ),
}


SAMPLE = ("fig leaf", "weights spoilt", "sparse", "gaps", "sign")


@pytest.mark.parametrize("name", in_sample(FORWARDS, SAMPLE))
def test_conduct_is_judged(evaluator, h200, name: str) -> None:
    forward, status, kind = FORWARDS[name]
    body = "".join(f"        {line}\n" for line in forward.splitlines())
    task = KernelTask(name="conduct", reference=REFERENCE, target=h200, precision="ieee")
    candidate = Candidate(source=KERNEL + body, author="test", stage="tensor_tiling", mode="seed")
    found = evaluator.evaluate(task, candidate)
    assert found.status == status, found.reason
    if kind is not None:
        assert kind in [finding.kind for finding in found.findings]
    if name == "sign":
        assert found.findings[0].cure.startswith("inputs of the other sign")
        assert "inputs negated" in found.findings[0].where
    if name == "right":
        assert found.integrity is not None
        assert found.integrity.kernels == ("kernel",)
        assert found.integrity.causal
        assert found.kernelbench is not None
        assert found.kernelbench.passed


def test_a_kernel_made_for_the_smaller_shapes_is_called_specialised(evaluator, h200) -> None:
    task = KernelTask(
        name="further", reference=REFERENCE, target=h200, precision="ieee", further_shapes=({"COLUMNS": 700},)
    )
    source = KERNEL.replace("BLOCK=triton.next_power_of_2(x.shape[1])", "BLOCK=512") + f"        {HONEST}\n"
    found = evaluator.evaluate(task, Candidate(source=source, author="test", stage="tensor_tiling", mode="seed"))
    assert found.status == "incorrect", found.reason
    assert found.findings[0].kind == "specialised_to_shape", found.findings


@pytest.mark.parametrize(
    ("refused", "status"), [("x.shape[0] == 2048", "correct"), ("x.shape[0] > 100 and len(x) != 4096", "incorrect")]
)
def test_one_long_shape_may_be_refused_and_not_every_one(evaluator, h200, refused: str, status: str) -> None:
    reference = REFERENCE.replace("ROWS, COLUMNS = 256, 512", "ROWS, COLUMNS = 4096, 8192")
    source = f"{KERNEL}        assert not ({refused}), 'not these'\n        {HONEST}\n"
    task = KernelTask(name="long", reference=reference, target=h200, precision="ieee")
    found = evaluator.evaluate(task, Candidate(source=source, author="test", stage="tensor_tiling", mode="seed"))
    assert found.status == status, found.reason
    if status == "correct":
        assert any("ROWS: 2048" in told and "which it refuses" in told for told in found.not_proven), found.not_proven
    else:
        assert found.findings[0].kind == "specialised_to_shape" and "not these" in found.findings[0].message


def test_a_kernel_that_refuses_the_only_long_shape_there_was_time_for_is_told_so_and_not_rejected(
    evaluator, h200
) -> None:
    reference = REFERENCE.replace("ROWS, COLUMNS = 256, 512", "ROWS, COLUMNS = 4096, 8192")
    slow = "while x.shape[0] > 100 and len(x) not in (2048, 4096):\n            pass"
    source = f"{KERNEL}        assert len(x) != 2048, 'not these'\n        {slow}\n        {HONEST}\n"
    task = KernelTask(name="long", reference=reference, target=h200, precision="ieee")
    found = evaluator.evaluate(task, Candidate(source=source, author="test", stage="tensor_tiling", mode="seed"))
    assert found.status == "correct", found.reason
    assert any("ROWS: 2048" in told and "which it refuses" in told for told in found.not_proven), found.not_proven


REFERENCES = {"contiguous": torch.zeros(4, 1, 3), "turned": torch.zeros(3, 1, 4).permute(2, 1, 0)}
LEAVES = {
    "the same": (torch.zeros(4, 1, 3), "", ""),
    "free stride of one row": (torch.empty_strided((4, 1, 3), (3, 99, 1)), "", ""),
    "turned": (torch.zeros(3, 1, 4).permute(2, 1, 0), "", "contiguous"),
    "gaps": (torch.zeros(4, 1, 5)[:, :, :3], "", "contiguous"),
    "expanded": (torch.zeros(1, 1, 3).expand(4, 1, 3), "contiguous turned", "contiguous turned"),
}
"""A leaf; next to which references it is refused where they compute, and where they move numbers alone."""


@pytest.mark.parametrize("name", LEAVES)
@pytest.mark.parametrize("order", REFERENCES)
@pytest.mark.parametrize("moves_only", [False, True])
def test_strides_are_held_to_what_the_reference_allows(name: str, order: str, moves_only: bool) -> None:
    leaf, computed, moved = LEAVES[name]
    case = SimpleNamespace(leaves=[SimpleNamespace(pytorch=REFERENCES[order])], moves_only=moves_only)
    kinds = [finding.kind for finding in judge_strides(case, [describe_leaf(leaf, ())])]
    assert kinds == (["wrong_strides"] if order in (moved if moves_only else computed).split() else [])


def test_an_order_that_is_not_refused_is_told() -> None:
    case = SimpleNamespace(leaves=[SimpleNamespace(pytorch=REFERENCES["contiguous"])], moves_only=False)
    (note,) = stride_notes(case, [describe_leaf(LEAVES["turned"][0], ())])
    assert ".view(-1) fails" in note

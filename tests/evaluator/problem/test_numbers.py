"""Budgets, comparison and counts of operations: numbers that decide verdicts."""

import math
from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode

from egg_graph.evaluator import load_reference
from egg_graph.evaluator.problem.case import Unevaluable
from egg_graph.evaluator.problem.case_builder import build_case
from egg_graph.evaluator.problem.expected_leaf import ExpectedLeaf
from egg_graph.evaluator.problem.family_case import build_family_case
from egg_graph.evaluator.problem.flops import NecessaryFlops
from egg_graph.evaluator.problem.leaf_comparison import compare_leaf, is_right
from egg_graph.evaluator.problem.precision import TF32Products, cast_as_policy_says, round_to_tf32, truncate_to_tf32
from egg_graph.evaluator.wire.poison import poison_, poisoned
from egg_graph.schema import Finding, Precision
from tests.paths import read_source

MATMUL = (
    "import torch\nimport torch.nn as nn\n\nclass Model(nn.Module):\n    def __init__(self):\n"
    "        super().__init__()\n"
    "        self.gamma = nn.Parameter(torch.ones(96))\n        self.beta = nn.Parameter(torch.zeros(96))\n\n"
    "    def forward(self, a, b):\n        return (a @ b) * self.gamma + self.beta\n\n"
    "def get_inputs():\n    return [torch.randn(64, 128), torch.randn(128, 96)]\n"
)


def case_of(source: str, precision: Precision, seed: int = 7):
    return build_case(
        load_reference(source), precision, name="test", overrides={}, seed=seed, device=torch.device("cpu")
    )


def test_budgets_follow_the_policy() -> None:
    policies: tuple[Precision, ...] = ("ieee", "tf32", "tf32_truncated", "fp16", "bf16")
    budgets = {p: case_of(MATMUL, p).leaves[0].budget for p in policies}
    assert 2 * budgets["tf32"] < budgets["tf32_truncated"] < budgets["bf16"]
    assert budgets["ieee"] < 1e-5 < budgets["tf32"] < 1.5e-3 < budgets["bf16"] < 2e-2
    assert budgets["fp16"] < budgets["bf16"]


QUANTISED = (
    "import torch\nimport torch.nn as nn\n\nclass Model(nn.Module):\n    def forward(self, x):\n"
    "        return torch.round(x * 127 / x.abs().amax(1, keepdim=True)).to(torch.int8)\n\n"
    "def get_inputs():\n    return [torch.randint(-254, 255, (64, 4000)).float() / 254]\n"
)
"""Every second number of it lies next to a half."""


def test_an_integer_next_to_a_half_may_be_rounded_to_either_side() -> None:
    (leaf,) = case_of(QUANTISED, "ieee").leaves
    least, greatest = leaf.rounded
    undecided = least != greatest
    assert 0.2 < undecided.float().mean() < 0.7
    assert is_right(least, leaf) and is_right(greatest, leaf)
    assert not is_right(torch.where(undecided, leaf.expected, leaf.expected ^ 1), leaf)
    assert not is_right(leaf.expected + 1, leaf)


STEPPED = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, gradient, average):
        return x - 1e-2 * torch.sign(0.9 * average + (1 - 0.9) * gradient)


def get_inputs():
    x, gradient, average = torch.randn(3, 64, 128)
    average[:BALANCED, 5] = gradient[:BALANCED, 5] * (-1 / 9 - 1.6e-8)
    return [x, gradient, average]
"""
"""A step by the sign of an update, which at the first rows is some 1e-8 beside numbers near 0.1."""


def test_the_sign_of_a_rounding_error_may_be_either() -> None:
    case = case_of(STEPPED.replace("BALANCED", "6"), "ieee")
    (leaf,), (x, gradient, average), one = case.leaves, case.inputs, torch.ones(())
    in_another_way = x - 1e-2 * torch.sign(0.9 * average + (one - torch.tensor(0.9)) * gradient)
    flipped = (in_another_way - leaf.expected).abs() > 1e-3
    assert flipped.any() and not flipped[6:].any()
    assert is_right(in_another_way, leaf)
    assert not is_right(torch.where(flipped, x, in_another_way), leaf), "it is one of the two values"
    assert not is_right(2 * x - in_another_way, leaf)
    other = in_another_way.clone()
    other[40, 7] += 2 * (x - other)[40, 7]
    assert not is_right(other, leaf), "no other element may"


def test_the_sign_of_the_rounding_error_of_a_difference_may_be_either() -> None:
    case = case_of(STEPPED.replace("BALANCED", "6").replace("1.6e-8", "1e-7"), "ieee")
    (leaf,), (x, *_) = case.leaves, case.inputs
    turned = torch.zeros(x.shape, dtype=torch.bool)
    turned[:6, 5] = True  # the difference of the two is ten times the result, and is rounded by as much as that
    by_the_difference = torch.where(turned, 2 * x - leaf.expected, leaf.expected).to(x.dtype)
    assert is_right(by_the_difference, leaf)


@pytest.mark.parametrize(("balanced", "either"), [(6, True), (60, False)])
def test_where_many_signs_hang_on_rounding_none_may_be_either(balanced: int, either: bool) -> None:
    source = STEPPED.replace("BALANCED", str(balanced)).replace("1.6e-8", "5e-8")
    (leaf,) = case_of(source, "ieee").leaves
    assert leaf.slack < 1e-5
    assert (leaf.jumps is not None) is either


def test_what_is_drawn_in_half_precision_beside_fp32_is_meant_so() -> None:
    both = [torch.randn(4).bfloat16(), torch.randn(4), torch.arange(4)]
    assert [x.dtype for x in cast_as_policy_says(both, "bf16")] == [torch.bfloat16, torch.float32, torch.int64]
    assert [x.dtype for x in cast_as_policy_says(both[1:], "bf16")] == [torch.bfloat16, torch.int64]
    assert [x.dtype for x in cast_as_policy_says(both, "fp16")] == [torch.float16, torch.float16, torch.int64]


@pytest.mark.parametrize("whole", [True, False])
def test_truncated_operands_are_named_whatever_their_error_looks_like(whole: bool) -> None:
    """Positive operands get a factor, whole numbers are not exact: neither is a constant or a padding lane."""
    draw = "torch.randint(1, 9000, (64, 128)).float()" if whole else "torch.rand(64, 128)"
    source = MATMUL.replace("torch.randn(64, 128)", draw).replace("torch.randn(128, 96)", "torch.rand(128, 96)")
    truncating = {"tf32": ["tf32_truncation"], "tf32_truncated": []}
    for precision, expected in truncating.items():
        case = case_of(source, precision)  # type: ignore[arg-type]
        (a, b), state = case.inputs, case.state
        got = (truncate_to_tf32(a) @ truncate_to_tf32(b)) * state["gamma"] + state["beta"]
        result = compare_leaf(
            got,
            case.leaves[0],
            where="",
            precision=precision,
            emulated_error=lambda kind, case=case: case.emulated_error(0, kind),  # type: ignore[misc]
            truncated=lambda case=case: case.truncated_leaf(0),  # type: ignore[misc]
        )
        assert [finding.kind for finding in result.findings] == expected
        assert all("tf32x3" in finding.cure for finding in result.findings)


def test_a_tf32_budget_admits_rounding_and_not_truncation() -> None:
    case = case_of(MATMUL, "tf32")
    leaf, (a, b) = case.leaves[0], case.inputs
    gamma, beta = case.state["gamma"], case.state["beta"]

    def judged(change, source: str = "") -> list[str]:
        got = (change(a) @ change(b)) * gamma + beta
        result = compare_leaf(
            got,
            leaf,
            where="",
            precision="tf32",
            emulated_error=lambda kind: case.emulated_error(0, kind),
            source=source,
        )
        return [finding.kind for finding in result.findings]

    assert judged(round_to_tf32) == []
    assert judged(lambda x: x) == []
    assert judged(truncate_to_tf32) == ["tf32_truncation"]
    assert judged(lambda x: x.bfloat16().float(), "x.to(tl.bfloat16)") == ["precision_loss"]
    assert judged(lambda x: x.bfloat16().float(), "x * 2.0") == ["wrong_values"]


POOLED_MAXIMUM = """
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(257, 208)

    def forward(self, x):
        return F.gelu(F.avg_pool1d(self.linear(x)[:, None], 16)[:, 0]).amax(1)


def get_inputs():
    return [torch.rand(19, 257)]
"""


def test_a_maximum_of_rounded_products_is_right_on_every_seed() -> None:
    """The errors of a few maxima are one draw: PyTorch's own may all be small by chance."""
    for seed in range(20):
        case = case_of(POOLED_MAXIMUM, "tf32", seed=101 * seed + 5)
        weight, bias = (case.state[f"linear.{name}"] for name in ("weight", "bias"))
        folded, pooled = weight.view(13, 16, 257).mean(1), bias.view(13, 16).mean(1)
        scores = round_to_tf32(case.inputs[0]) @ round_to_tf32(folded).t() + pooled
        assert is_right(F.gelu(scores).amax(1), case.leaves[0]), seed
        half = case.inputs[0].bfloat16().float() @ folded.bfloat16().float().t() + pooled
        assert not is_right(F.gelu(half).amax(1), case.leaves[0]), seed


def test_other_roundings_are_as_fine_as_tf32s_and_other_ones() -> None:
    x = torch.randn(5000, generator=torch.Generator().manual_seed(0))
    errors = [TF32Products(grid=grid).reduce(x) - x for grid in (1.0, 2**0.25, 2**0.5)]
    sizes = [float(error.norm() / x.norm()) for error in errors]
    assert max(sizes) < 1.1 * min(sizes) and max(sizes) < 2.0**-11
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert abs(float(torch.corrcoef(torch.stack([errors[i], errors[j]]))[0, 1])) < 0.1


CANCELLED = (
    "import torch\nimport torch.nn as nn\n\nclass Model(nn.Module):\n    def forward(self, x, shift):\n"
    "        there = -torch.relu(x + shift)\n        return torch.exp(4 * (x + shift + there))\n\n"
    "def get_inputs():\n    return [torch.randn(64, 96), torch.randn(64, 1)]\n"
)
DECAYED = (
    "import torch\nimport torch.nn as nn\n\nclass Model(nn.Module):\n    def __init__(self, decay):\n"
    "        super().__init__()\n        self.decay = decay\n\n    def forward(self, x):\n"
    "        return (1 - self.decay) * x\n\n"
    "def get_inputs():\n    return [torch.randn(64, 96)]\n\ndef get_init_inputs():\n    return [0.999]\n"
)


def large_case_of(source: str):
    return build_family_case(case_of(source, "ieee"), load_reference(source), "ieee", family="large", seed=11)


def test_a_sum_that_cancels_may_be_taken_in_another_order() -> None:
    case = large_case_of(CANCELLED)
    x, shift = case.inputs
    there = -torch.relu(x + shift)
    assert is_right(torch.exp(4 * (there + shift + x)), case.leaves[0])
    assert not is_right(torch.exp(4 * (there.bfloat16().float() + shift + x)), case.leaves[0])
    assert not is_right(torch.exp(4 * (x + shift + there)) * 1.001, case.leaves[0])


def test_a_number_of_the_module_may_be_an_fp32_argument() -> None:
    case = large_case_of(DECAYED)
    (x,), one = case.inputs, torch.ones(())
    assert is_right((one - torch.tensor(0.999)) * x, case.leaves[0])
    assert not is_right((one - torch.tensor(0.999).half().float()) * x, case.leaves[0])
    assert large_case_of(DECAYED.replace("(1 - self.decay)", "self.decay")).leaves[0].budget <= 4e-6
    paired = DECAYED.replace("self.decay = decay", "self.betas = 0.9, decay").replace("self.decay)", "self.betas[1])")
    assert is_right((one - torch.tensor(0.999)) * x, large_case_of(paired).leaves[0])


def test_constant_parameters_are_moved_off_their_constant() -> None:
    state = case_of(MATMUL, "ieee").state
    assert float(state["gamma"].std()) > 0.05
    assert float(state["beta"].std()) > 0.05
    assert float(state["gamma"].min()) < 0 < float(state["gamma"].max())


def test_a_chaotic_reference_is_refused() -> None:
    with pytest.raises(Unevaluable, match="off fp64"):
        case_of(MATMUL.replace("return (a @ b)", "return torch.sin(1e9 * (a @ b))"), "tf32")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_poison_is_recognised_and_numbers_are_not_poison(dtype: torch.dtype) -> None:
    fresh = poison_(torch.empty(5, 3, dtype=dtype))
    assert bool(poisoned(fresh).all())
    assert bool(torch.isnan(fresh).all())
    fresh[1, 2] = float("nan")
    fresh[0, 0] = 1.0
    assert int(poisoned(fresh).sum()) == 13


def leaf(expected: torch.Tensor, budget: float = 1e-5) -> ExpectedLeaf:
    return ExpectedLeaf(expected.double(), torch.float32, budget, slack=1e-6, pytorch_error=1e-7)


def judged(got: torch.Tensor, expected: torch.Tensor) -> Finding:
    (finding,) = compare_leaf(
        got, leaf(expected), where="x", precision="tf32", emulated_error=lambda kind: None
    ).findings
    return finding


def test_messages_point_at_the_fault() -> None:
    expected = torch.randn(40, 50, generator=torch.Generator().manual_seed(0))
    got = expected.clone()
    got[:, 48:] = 0
    finding = judged(got, expected)
    assert finding.kind == "wrong_values"
    assert "all at index >= 48 of dimension 1 (size 50)" in finding.message
    assert "80 of 2000 elements" in finding.message
    assert "2 times the expected" in judged(2 * expected, expected).message
    assert "got is the expected value plus 0.5 everywhere" in judged(expected + 0.5, expected).message
    assert "got is the expected value minus 0.5 everywhere" in judged(expected - 0.5, expected).message
    assert "zero everywhere" in judged(0 * expected, expected).message
    nan = expected.clone()
    nan[3, 4] = float("nan")
    assert judged(nan, expected).kind == "non_finite"
    assert "[3, 4]" in judged(nan, expected).message


def test_one_wrong_element_cannot_hide_in_a_large_tensor() -> None:
    expected = torch.ones(1000, 1000)
    got = expected.clone()
    got[500, 500] = 1.01
    result = compare_leaf(got, leaf(expected, 1e-4), where="", precision="bf16", emulated_error=lambda kind: None)
    assert result.error < 1e-4
    assert not result.passed


def test_infinities_must_be_the_references_own() -> None:
    expected = torch.tensor([1.0, -math.inf, 2.0])
    assert compare_leaf(
        expected.clone(), leaf(expected), where="", precision="ieee", emulated_error=lambda k: None
    ).passed
    assert judged(torch.tensor([1.0, math.inf, 2.0]), expected).kind == "non_finite"


@pytest.mark.parametrize("fake", [True, False])
@pytest.mark.parametrize(("queries", "keys"), [(5, 5), (5, 3), (3, 7)])
@pytest.mark.parametrize("batch", [(2, 3), (6,)])
def test_causal_attention_counts_below_the_diagonal_alone(
    batch: tuple[int, ...], queries: int, keys: int, fake: bool
) -> None:
    with FakeTensorMode() if fake else nullcontext(), torch.no_grad():
        query, key = torch.randn(*batch, queries, 8), torch.randn(*batch, keys, 8)
        with NecessaryFlops() as causal:
            torch.nn.functional.scaled_dot_product_attention(query, key, key, is_causal=True)
            torch.matmul(query, key.transpose(-1, -2))
        with NecessaryFlops() as full:
            torch.nn.functional.scaled_dot_product_attention(query=query, key=key, value=key)
    scores = sum(column <= row for row in range(queries) for column in range(keys))
    assert causal.get_total_flops() == 6 * (scores * 2 * (8 + 8) + queries * keys * 2 * 8)
    assert full.get_total_flops() == 6 * queries * keys * 2 * (8 + 8)


def test_a_kernel_gets_the_numbers_of_a_module_in_fp32() -> None:
    """1 - 0.999 is off by 1.3e-5 there, for all elements alike."""
    source = read_source("problems/decayed_average.py").replace(
        "torch.rand(ROWS, COLUMNS)", "torch.rand(ROWS, COLUMNS) / 1000"
    )
    case = case_of(source, "ieee")
    average, x = (given.double() for given in case.inputs)

    def answer(decay: float) -> torch.Tensor:
        return (decay * average + (1 - decay) * x * x).float()

    assert is_right(answer(0.999), case.leaves[0])
    assert is_right(answer(float(torch.tensor(0.999))), case.leaves[0])
    assert not is_right(answer(0.999 + 1e-5), case.leaves[0])

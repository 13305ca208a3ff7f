"""The formulas of activations that kernels share are as close to the exact values as PyTorch's own, in fp32."""

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from egg_graph.expert.codegen.helpers import helper_source

INFINITY = float("inf")
TORCH = SimpleNamespace(abs=torch.abs, exp=torch.exp, exp2=torch.exp2, where=torch.where)
"""What the formulas call of Triton, in PyTorch."""
GRID = torch.cat([torch.linspace(-30, 30, 60_001), torch.linspace(-1, 1, 20_001), torch.logspace(-30, 30, 601)])


def formula(name: str):
    """The formula as a function of tensors."""
    namespace = {"tl": TORCH, "triton": SimpleNamespace(jit=lambda function: function)}
    exec(helper_source({name}), namespace)
    return namespace[name]


@pytest.mark.parametrize(
    ("name", "pytorch", "atol"),
    [("gelu", F.gelu, 3e-7), ("softplus", F.softplus, 1e-37), ("tanh", torch.tanh, 0.0), ("mish", F.mish, 0.0)],
)
def test_a_formula_is_exact_to_a_few_units_in_the_last_place(name, pytorch, atol):
    x = torch.cat([GRID, -GRID]).clamp(-1e30 if name != "mish" else -80.0, 1e30)
    # gelu of a negative number is what is left of x when Phi(x) nears 0: the error counts beside x, as in PyTorch.
    exact = pytorch(x.double())
    torch.testing.assert_close(formula(name)(x).double(), exact, rtol=6e-7, atol=atol)


@pytest.mark.parametrize(
    ("name", "left", "right"),
    [("gelu", None, INFINITY), ("softplus", 0.0, INFINITY), ("tanh", -1.0, 1.0)],
)
def test_a_formula_keeps_nan_and_its_limits(name, left, right):
    at_minus, at_plus, at_nan = formula(name)(torch.tensor([-INFINITY, INFINITY, float("nan")])).tolist()
    assert at_plus == right and at_nan != at_nan
    assert at_minus == left if left is not None else at_minus != at_minus, "-inf times 0 in gelu, as PyTorch has it"

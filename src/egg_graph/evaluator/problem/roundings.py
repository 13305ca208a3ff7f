"""Other roundings of the same forward: what every step of it, and every number in it, may be off by in fp32.

A kernel adds in another order than the reference, and gets the numbers of a module as fp32 arguments. Where differences
of nearly equal numbers make either count, no kernel can be as exact as PyTorch happens to be.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from egg_graph.evaluator.problem.norms_through_a_mean import NORMS, steps_of_sum, with_other_mean
from egg_graph.evaluator.problem.operators import (
    ADDENDS,
    GRADIENTS_OF_CONVOLUTION,
    INDEXED_MOVES,
    MOVES,
    PRODUCTS,
    SELECTS,
    VIEWS,
)

FP32_ULP = 2.0**-23
"""Relative size of one ulp of fp32, at most."""
ROUND_NOTHING = (
    VIEWS | MOVES | INDEXED_MOVES | SELECTS | {"relu", "clamp", "clamp_min", "clamp_max", "maximum", "minimum", "where"}
) | {"neg", "abs", "sign", "floor", "ceil", "round", "trunc", "masked_fill", "scatter", "masked_select", "_to_copy"}
"""Operators whose answer fp32 holds exactly if it holds their operands."""
APPROXIMATED = frozenset(
    {"div", "reciprocal", "sqrt", "rsqrt", "exp", "exp2", "log", "log2", "sin", "cos", "tanh", "sigmoid"}
    | {"linalg_vector_norm", "norm", "_softmax", "_log_softmax"}
)
"""Operators for which a GPU has instructions that are off by an ulp or two, and by as much for all elements."""
THROUGH_A_SUM = frozenset({"_softmax", "_log_softmax"})
"""Operators that a kernel may compute from the logarithm of a sum of exponentials, as attention's gradients do."""


class RoundedOtherwise(TorchDispatchMode):
    """While active, moves what each operator computes by up to half an ulp of fp32: a product's answer by more, since
    its terms are added one after another, and an approximated one also by up to an ulp that all elements share. A
    softmax is off as exp(x - l) is, where x and the logarithm l of the sum are fp32, which counts where both are large.
    Each keeps its dtype: some references take part of their numbers to fp32, whatever they run in.

    Args:
        generator: draws by how much.
    """

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()
        self._generator = generator

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        answer = func(*args, **(kwargs or {}))
        shares = any(given.alias_info is not None for given in func._schema.returns)  # a view, or written in place
        name = func.overloadpacket.__name__
        if shares or name in ROUND_NOTHING:
            return answer
        if name in THROUGH_A_SUM:
            answer = _through_the_sum(name, answer, *args[:2])
        if name in NORMS:
            steps = _half_ulps_of_sum(steps_of_sum(answer[0].numel() // max(1, answer[1].numel())))
            answer = with_other_mean(name, answer, args, lambda x: moved(x, FP32_ULP * steps, self._generator))
        ulp = FP32_ULP * _half_ulps_of_sum(_count_terms(name, args))

        def rounded(x: torch.Tensor) -> torch.Tensor:
            other = moved(x, ulp, self._generator)
            if name in APPROXIMATED:
                other = moved_together(other, 2 * FP32_ULP, self._generator)
            return other.to(x.dtype)

        return tree_map_only(torch.Tensor, rounded, answer)


def _through_the_sum(name: str, answer: torch.Tensor, x: torch.Tensor, dim: int) -> torch.Tensor:
    """A softmax, or its logarithm, from numbers and the logarithm of their sum in fp32."""
    numbers = x.float().double()
    total = torch.logsumexp(numbers, dim, keepdim=True).float().double()
    logarithm = numbers - total
    return (logarithm if name == "_log_softmax" else logarithm.exp()).to(answer.dtype)


def _count_terms(name: str, args: Sequence[Any]) -> int:
    """How many products an operator adds up for one number of its answer; 1 if it is no matrix product."""
    if name == "convolution":
        return int(args[1][0].numel())
    if name == GRADIENTS_OF_CONVOLUTION:
        return int(args[0][:, 0].numel())
    return int(args[name in ADDENDS].shape[-1]) if name in PRODUCTS - {"linear"} else 1


def _half_ulps_of_sum(terms: int) -> float:
    """By how much a sum of numbers of one sign is off, where each is added to those before it [half ulps]: errors that
    grow with the sum, none of which knows of the others."""
    return max(1.0, math.sqrt(terms / 3))


def moved(x: torch.Tensor, ulp: float, generator: torch.Generator) -> torch.Tensor:
    """Move every element by up to half an ulp, in fp64; integers stay."""
    if not x.is_floating_point():
        return x
    draw = torch.rand(x.shape, generator=generator, dtype=torch.float64, device=x.device)
    return draw.sub_(0.5).mul_(ulp).add_(1).mul_(x)


def moved_together(x: torch.Tensor, ulp: float, generator: torch.Generator) -> torch.Tensor:
    """Move all elements by the same part of half an ulp, in fp64; integers stay."""
    if not x.is_floating_point():
        return x
    draw = torch.rand((), generator=generator, dtype=torch.float64, device=x.device)
    return x * (1 + ulp * (draw - 0.5))


def keep_numbers_in_fp32(model: nn.Module) -> None:
    """Round the numbers that a module and its parts keep as attributes, such as a decay or a pair of them, to fp32."""
    for module in model.modules():
        for name, value in vars(module).items():
            if any(isinstance(number, float) for number in tree_leaves(value)):
                vars(module)[name] = tree_map_only(float, _in_fp32, value)


def needs_more_than_fp32(model: nn.Module) -> bool:
    """Whether a module of the reference's own has a number that fp32 does not hold.

    PyTorch's modules do not count: each norm has an eps.
    """
    own = (vars(module) for module in model.modules() if not type(module).__module__.startswith("torch."))
    kept = (number for values in own for value in values.values() for number in tree_leaves(value))
    return any(isinstance(number, float) and math.isfinite(number) and _in_fp32(number) != number for number in kept)


def _in_fp32(number: float) -> float:
    rounded = float(torch.tensor(number, dtype=torch.float32))
    return rounded if math.isfinite(rounded) else number

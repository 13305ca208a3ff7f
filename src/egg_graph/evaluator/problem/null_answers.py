"""Null candidates: answers that nobody computed. A problem that accepts one cannot tell a kernel from an empty one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch.utils._pytree import tree_leaves

from egg_graph.evaluator.problem.budgets import MARGIN, Unevaluable
from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.kernelbench_criterion import TOLERANCE, accepts
from egg_graph.evaluator.problem.leaf_comparison import Leaf, compare, relative_error
from egg_graph.schema import Precision

Answer = list[torch.Tensor]
WITHOUT_INPUT = ("zeros", "ones", "one constant", "noise of the right mean and spread", "the answer to other inputs")
"""Nulls that look at no input: whichever passes, the problem is degenerate on such inputs."""
SAMPLE = 1 << 20
"""Elements of a large answer that its mean, median and spread are taken from: more would not be sorted, or not fit."""
ULP = {torch.float64: 2.0**-52, torch.float32: 2.0**-23, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}


@dataclass(frozen=True)
class Null:
    """One answer that nobody computed."""

    name: str
    leaves: Answer


def nulls_of(case: Case, other: Case, reweighted: Case | None = None) -> Iterator[Null]:
    """Every null candidate's answer to a case.

    Args:
        case: what is asked.
        other: the same model on other inputs of the same distribution: all that a null may know of the answer.
        reweighted: the same inputs under other weights; None where the model has none.
    """
    given = [x for x in tree_leaves(case.inputs) if isinstance(x, torch.Tensor)]
    yield from _nulls(
        [_as_answered(leaf) for leaf in case.leaves],
        [_as_answered(leaf) for leaf in other.leaves],
        given,
        [_as_answered(leaf) for leaf in reweighted.leaves] if reweighted is not None else None,
    )


def constants_of(case: Case) -> Iterator[Null]:
    """The nulls that need nothing but the answer's form and its mean."""
    answer = [_as_answered(leaf) for leaf in case.leaves]
    yield Null("zeros", [torch.zeros_like(a) for a in answer])
    yield Null("one constant", [torch.full_like(a, _typical(a)) for a in answer])


def passes(null: Null, case: Case, precision: Precision) -> bool:
    """Whether our own comparison accepts a null's answer to a case."""
    return all(
        compare(got, leaf, where="", precision=precision, emulated_error=lambda kind: None).passed
        for got, leaf in zip(null.leaves, case.leaves, strict=True)
    )


def tightened(null: Null, case: Case, precision: Precision) -> list[Leaf] | None:
    """The case's leaves with budgets that refuse a null which they accept; None where that would leave PyTorch's own
    error (times the margin) no room."""
    tighter = []
    for got, leaf in zip(null.leaves, case.leaves, strict=True):
        error = relative_error(got.to(leaf.expected.dtype), leaf.expected) if not leaf.exact else 0.0
        least = MARGIN[precision] * max(leaf.pytorch_error, ULP.get(leaf.dtype, 2.0**-23) / 2)
        tighter.append(replace(leaf, budget=error / 2) if error / 2 > least else leaf)
    return tighter if any(a is not b for a, b in zip(tighter, case.leaves, strict=True)) else None


def is_constant(case: Case, precision: Precision) -> bool:
    """Whether a constant passes, whatever the budget. (Of a single number nothing can be asked so.)"""
    if all(leaf.expected.numel() < 2 for leaf in case.leaves):
        return False
    for null in constants_of(case):
        tighter = tightened(null, case, precision) or case.leaves
        if passes(null, replace(case, leaves=tighter), precision):
            return True
    return False


def accepted_by_kernelbench(
    answer: Answer, other: Answer, given: Sequence[torch.Tensor], reweighted: Answer | None, precision: Precision
) -> tuple[str, ...]:
    """Names of the nulls within KernelBench's fixed tolerance of PyTorch's answer.

    Args:
        answer: PyTorch's at the declared precision, with the weights of the constructor as they are.
        other: the same for other inputs.
        given: the tensors among the inputs.
        reweighted: the same inputs, other weights; None where there are none.
        precision: the task's policy.
    """
    tolerance = TOLERANCE[precision]
    return tuple(
        null.name
        for null in _nulls(answer, other, given, reweighted)
        if all(accepts(a, got, tolerance)[0] for a, got in zip(answer, null.leaves, strict=True))
    )


def _nulls(answer: Answer, other: Answer, given: Sequence[torch.Tensor], reweighted: Answer | None) -> Iterator[Null]:
    yield Null("zeros", [torch.zeros_like(a) for a in answer])
    yield Null("ones", [torch.ones_like(a) for a in answer])
    yield Null("one constant", [torch.full_like(o, _typical(o)) for o in other])
    yield Null("noise of the right mean and spread", [_noise(o) for o in other])
    yield Null("the answer to other inputs", other)
    if all(a.dim() > 1 and a.shape[0] > 1 for a in answer):
        yield Null("the first row repeated", [a[:1].expand_as(a).clone() for a in answer])
    for index, x in enumerate(given):
        if len(answer) == 1 and x.shape == answer[0].shape and x.dtype == answer[0].dtype:
            yield Null(f"a copy of input {index}", [x])
    if reweighted is not None:
        yield Null("the answer under other weights", reweighted)


def _as_answered(leaf: Leaf) -> torch.Tensor:
    return leaf.expected.to(leaf.dtype)


def _some(x: torch.Tensor) -> torch.Tensor:
    """Finite elements, `SAMPLE` of a large tensor, in fp64 where they are real numbers with a point."""
    sample = x.flatten()[:: max(1, x.numel() // SAMPLE)]
    values = sample[torch.isfinite(sample)]
    values = values if values.numel() else torch.zeros(1, dtype=x.dtype, device=x.device)
    return values.double() if x.dtype.is_floating_point else values


def _typical(x: torch.Tensor) -> float | bool | complex:
    """The mean; for integers the median."""
    values = _some(x)
    if x.dtype.is_complex:
        return complex(values.mean().item())
    typical = values.mean() if x.dtype.is_floating_point else values.double().median()
    return bool(round(float(typical))) if x.dtype == torch.bool else float(typical)


def _noise(x: torch.Tensor) -> torch.Tensor:
    if not x.dtype.is_floating_point:
        return torch.full_like(x, _typical(x))
    values = _some(x)
    draw = torch.randn(x.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float32).to(x.device)
    spread = float(values.std()) if values.numel() > 1 else 0.0
    return (draw * spread + float(values.mean())).to(x.dtype)


def refuse_constants(case: Case, precision: Precision) -> None:
    """What can be asked of a case at full shape without a second one: whether a constant passes.

    Raises:
        Unevaluable: if it does. (Of a single number nothing can be asked so.)
    """
    if all(leaf.expected.numel() < 2 for leaf in case.leaves):
        return
    for null in constants_of(case):
        if passes(null, case, precision):
            raise Unevaluable(
                f"at full shape the answer does not depend on the input, within the error budget: {null.name} would "
                f"pass ({size_of(case)}); take inputs or sizes at which it does"
            )


def size_of(case: Case) -> str:
    shown = ", ".join(f"{leaf.expected.numel()} elements" for leaf in case.leaves[:3])
    return f"PyTorch's own error is {max(leaf.pytorch_error for leaf in case.leaves):.1e}, {shown}"

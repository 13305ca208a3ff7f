"""Null answers are not computed from the inputs. A problem that accepts one cannot reject an empty kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch.utils._pytree import tree_leaves

from egg_graph.evaluator.problem.budgets import MARGIN
from egg_graph.evaluator.problem.case import Case, Unevaluable
from egg_graph.evaluator.problem.error_sums import relative_error
from egg_graph.evaluator.problem.expected_leaf import ExpectedLeaf
from egg_graph.evaluator.problem.kernelbench_criterion import TOLERANCE, accepts
from egg_graph.evaluator.problem.leaf_comparison import is_right
from egg_graph.schema import Precision

Leaves = list[torch.Tensor]
"""The tensors of one answer."""
OTHER_WEIGHTS = "the answer under other weights"
WITHOUT_INPUT = ("zeros", "ones", "one constant", "noise of the right mean and spread", "the answer to other inputs")
"""Null answers that use no input. If one of them passes, the problem is degenerate on such inputs."""
SAMPLE = 1 << 20
"""Number of elements of a large answer from which its mean, median and spread are estimated."""
ULP = {torch.float64: 2.0**-52, torch.float32: 2.0**-23, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}


@dataclass(frozen=True)
class NullAnswer:
    """One answer that is not computed from the inputs."""

    name: str
    """How it is made, in words."""
    leaves: Leaves


def null_answers(case: Case, other: Case, reweighted: Case | None = None) -> Iterator[NullAnswer]:
    """Make every null answer to a case.

    Args:
        case: the case.
        other: the same model on other inputs of the same distribution: all that a null answer may use of the answer.
        reweighted: the same inputs under other weights; None if the model has none.
    """
    given = [x for x in tree_leaves(case.inputs) if isinstance(x, torch.Tensor)]
    weighted = _expected_answer(reweighted) if reweighted is not None else None
    yield from _null_answers(_expected_answer(case), _expected_answer(other), given, weighted)


def constant_answers(case: Case) -> Iterator[NullAnswer]:
    """Make the null answers that need only the form of the answer and its mean. They are expanded: they own one number
    each."""
    due = [(leaf.expected, leaf.dtype) for leaf in case.leaves]
    yield NullAnswer("zeros", [_everywhere(0, x, dtype) for x, dtype in due])
    yield NullAnswer("one constant", [_everywhere(_typical(x), x, dtype) for x, dtype in due])


def _everywhere(value: complex, like: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return torch.full((), value, dtype=dtype, device=like.device).expand(like.shape)


def is_accepted(null: NullAnswer, case: Case) -> bool:
    """Whether the comparison accepts a null answer to a case."""
    return all(is_right(got, leaf) for got, leaf in zip(null.leaves, case.leaves, strict=True))


def tighten_budgets(null: NullAnswer, case: Case, precision: Precision) -> list[ExpectedLeaf] | None:
    """Tighten the budgets of a case until they refuse a null answer.

    Returns:
        The case's leaves with tighter budgets; None if that leaves no room for PyTorch's own error times its margin.
    """
    tighter = []
    for got, leaf in zip(null.leaves, case.leaves, strict=True):
        error = relative_error(got, leaf.expected) if not leaf.exact else 0.0
        least = MARGIN[precision] * max(leaf.pytorch_error, ULP.get(leaf.dtype, 2.0**-23) / 2)
        tighter.append(replace(leaf, budget=error / 2) if error / 2 > least else leaf)
    return tighter if any(a is not b for a, b in zip(tighter, case.leaves, strict=True)) else None


def accepts_constant(case: Case, precision: Precision) -> bool:
    """Whether a case accepts a constant even under tightened budgets; False for answers of one number."""
    if all(leaf.expected.numel() < 2 for leaf in case.leaves):
        return False
    for null in constant_answers(case):
        tighter = tighten_budgets(null, case, precision) or case.leaves
        if is_accepted(null, replace(case, leaves=tighter)):
            return True
    return False


def refuse_constants(case: Case) -> None:
    """Check that a case at full shape refuses constants. That needs no second case. Answers of one number pass.

    Raises:
        Unevaluable: if it accepts one.
    """
    if all(leaf.expected.numel() < 2 for leaf in case.leaves):
        return
    for null in constant_answers(case):
        if is_accepted(null, case):
            raise Unevaluable(
                f"at full shape the answer does not depend on the input, within the error budget: {null.name} would "
                f"pass ({describe_error(case)}); take inputs or sizes at which it does"
            )


def accepted_by_kernelbench(
    answer: Leaves, other: Leaves, given: Sequence[torch.Tensor], reweighted: Leaves | None, precision: Precision
) -> tuple[str, ...]:
    """Names of the null answers within KernelBench's fixed tolerance of PyTorch's answer.

    Args:
        answer: PyTorch's answer at the declared precision, with the constructor's own weights.
        other: PyTorch's answer to other inputs.
        given: the tensors among the inputs.
        reweighted: PyTorch's answer to the same inputs under other weights; None if there are no weights.
        precision: the task's policy.
    """
    tolerance = TOLERANCE[precision]
    return tuple(
        null.name
        for null in _null_answers(answer, other, given, reweighted)
        if all(accepts(a, got, tolerance)[0] for a, got in zip(answer, null.leaves, strict=True))
    )


def describe_error(case: Case) -> str:
    """PyTorch's own error on a case and the number of elements of its answer, in words."""
    shown = ", ".join(f"{leaf.expected.numel()} elements" for leaf in case.leaves[:3])
    return f"PyTorch's own error is {max(leaf.pytorch_error for leaf in case.leaves):.1e}, {shown}"


def _null_answers(
    answer: Leaves, other: Leaves, given: Sequence[torch.Tensor], reweighted: Leaves | None
) -> Iterator[NullAnswer]:
    yield NullAnswer("zeros", [torch.zeros_like(a) for a in answer])
    yield NullAnswer("ones", [torch.ones_like(a) for a in answer])
    yield NullAnswer("one constant", [torch.full_like(o, _typical(o)) for o in other])
    yield NullAnswer("noise of the right mean and spread", [_noise_like(o) for o in other])
    yield NullAnswer("the answer to other inputs", other)
    if all(a.dim() > 1 and a.shape[0] > 1 for a in answer):
        yield NullAnswer("the first row repeated", [a[:1].expand_as(a).clone() for a in answer])
    for index, x in enumerate(given):
        if len(answer) == 1 and x.shape == answer[0].shape and x.dtype == answer[0].dtype:
            yield NullAnswer(f"a copy of input {index}", [x])
    if reweighted is not None:
        yield NullAnswer(OTHER_WEIGHTS, reweighted)


def _expected_answer(case: Case) -> Leaves:
    """The expected values in the dtypes of the answer."""
    return [leaf.expected.to(leaf.dtype) for leaf in case.leaves]


def _sample(x: torch.Tensor) -> torch.Tensor:
    """Finite elements, about `SAMPLE` of a large tensor; in fp64 if they are floating."""
    sample = x.flatten()[:: max(1, x.numel() // SAMPLE)]
    values = sample[torch.isfinite(sample)]
    values = values if values.numel() else torch.zeros(1, dtype=x.dtype, device=x.device)
    return values.double() if x.dtype.is_floating_point else values


def _typical(x: torch.Tensor) -> float | bool | complex:
    """The mean; for integers and booleans the median."""
    values = _sample(x)
    if x.dtype.is_complex:
        return complex(values.mean().item())
    typical = values.mean() if x.dtype.is_floating_point else values.double().median()
    return bool(round(float(typical))) if x.dtype == torch.bool else float(typical)


def _noise_like(x: torch.Tensor) -> torch.Tensor:
    """Normal noise with the mean and the standard deviation of a tensor; integers are constant."""
    if not x.dtype.is_floating_point:
        return torch.full_like(x, _typical(x))
    values = _sample(x)
    generator = torch.Generator(x.device).manual_seed(0)
    draw = torch.randn(x.shape, generator=generator, dtype=torch.float32, device=x.device)
    spread = float(values.std()) if values.numel() > 1 else 0.0
    return draw.mul_(spread).add_(float(values.mean())).to(x.dtype)

"""Write `einsum` in products of two operands: one batched matrix product a contraction. Imports torch."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor


class Step(NamedTuple):
    """Two operands, by their places, and the labels of what they become; the result takes the place of the first."""

    first: int
    second: int
    labels: str


class Contraction(NamedTuple):
    """The labels of a product of two operands by the part that they play in it."""

    batch: str
    rows: str
    cols: str
    summed: str

    @property
    def found(self) -> str:
        """Labels of the product, in order."""
        return self.batch + self.rows + self.cols


def einsum(equation: str, operands: Sequence[Tensor], *, path: Any = None) -> Tensor:
    """Contract operand after operand; keep the operator where a step would be no matrix product or scaling."""
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    labels = inputs.split(",")
    if not arrow or "." in equation or any(len(set(t)) < len(t) for t in (*labels, output)):
        return NotImplemented
    steps = _steps(labels, output)
    if steps is None:
        return NotImplemented
    terms = list(zip(labels, operands, strict=True))
    for first, second, result in steps:
        (left, a), (right, b) = terms[first], terms[second]
        scales = set(right) <= set(result) == set(left)
        terms[first] = (result, _scaled(left, a, right, b) if scales else _product(left, a, right, b, result))
        del terms[second]
    return terms[0][1]


def _steps(labels: Sequence[str], output: str) -> list[Step] | None:
    """Return the steps: multiply operands by those that have no further labels, and then contract pairs."""
    left = list(labels)
    steps: list[Step] = []
    while len(left) > 1:
        step = _scaling(left) if len(left) > 2 else None
        step = step or _contracted(left, output)
        if step is None:
            return None
        steps.append(step)
        left[step.first] = step.labels
        del left[step.second]
    return steps or None


def _scaling(labels: Sequence[str]) -> Step | None:
    for second, factor in enumerate(labels):
        for first, other in enumerate(labels):
            if first != second and set(factor) <= set(other):
                return Step(first, second, other)
    return None


def _contracted(labels: Sequence[str], output: str) -> Step | None:
    """Return the first pair that has labels which nothing else reads; the last pair gives the output."""
    for first in range(len(labels)):
        for second in range(first + 1, len(labels)):
            rest = [t for i, t in enumerate(labels) if i not in (first, second)]
            found = _contraction(labels[first], labels[second], "".join(rest) + output)
            if found is not None and (rest or set(found.found) == set(output)):
                return Step(first, second, found.found if rest else output)
    return None


def _contraction(left: str, right: str, needed: str) -> Contraction | None:
    """Return how two operands meet; None where nothing is summed, or a label of one alone is not needed any more."""
    shared = [c for c in left if c in right]
    batch, summed = ("".join(c for c in shared if (c in needed) is kept) for kept in (True, False))
    rows, cols = "".join(c for c in left if c not in right), "".join(c for c in right if c not in left)
    if not summed or any(c not in needed for c in rows + cols):
        return None
    return Contraction(batch, rows, cols, summed)


def _scaled(left: str, a: Tensor, right: str, b: Tensor) -> Tensor:
    b = _ordered(b, right, "".join(c for c in left if c in right))
    for dim, label in enumerate(left):
        b = b if label in right else b.unsqueeze(dim)
    return a * b


def _product(left: str, a: Tensor, right: str, b: Tensor, output: str) -> Tensor:
    """Return the product of two operands by one batched matrix product, its dimensions in the order of `output`."""
    way = _contraction(left, right, output)
    assert way is not None
    size = {**dict(zip(left, a.shape, strict=True)), **dict(zip(right, b.shape, strict=True))}

    def joined(x: Tensor, own: str, *parts: str) -> Tensor:
        x = _ordered(x, own, way.batch + "".join(parts))
        return x.reshape([math.prod(size[c] for c in part) for part in (*filter(None, [way.batch]), *parts)])

    product = joined(a, left, way.rows, way.summed) @ joined(b, right, way.summed, way.cols)
    return _ordered(product.reshape([size[c] for c in way.found]), way.found, output)


def _ordered(x: Tensor, labels: str, wanted: str) -> Tensor:
    order = [labels.index(c) for c in wanted]
    return x if order == list(range(x.dim())) else x.permute(order)

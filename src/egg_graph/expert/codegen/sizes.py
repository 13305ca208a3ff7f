"""Turn numbers of several captures back into expressions over tensor shapes, so that generated code fits any shape.

A number that differs between captures is a vector, one entry each: `(8192, 64, 37)`. It is matched against atoms
(`x.shape[0]`, `self.num_heads`, …) and small combinations of them, simplest first. Captures at unrelated sizes make a
coincidence unlikely; the evaluator's further shapes would expose one.
"""

from collections.abc import Iterable
from math import isclose, isqrt, prod

from egg_graph.expert.capture.graph import CapturedGraph, Derived, Placeholder, member
from egg_graph.expert.codegen.indexing import Vector

MOST_STRIDE = 8
"""The largest factor that is tried where a constant is added too."""
ROUNDING = 2.0**-51
"""Relative error of n / (n - 1) and of what it is computed from."""


class Scope:
    """The numbers that an expression may refer to at one place of the generated code."""

    def __init__(self) -> None:
        self._atoms: dict[Vector, str] = {}
        self._products: dict[Vector, str] = {}
        self._derived: dict[Vector, str] = {}
        self._floats: dict[tuple[float, ...], str] = {}

    @classmethod
    def of_tensors(cls, graph: CapturedGraph, tensors: Iterable[tuple[str, str]]) -> "Scope":
        """Make a scope with the sizes of some tensors, given as (text, node name) pairs."""
        scope = cls()
        for text, name in tensors:
            scope.add_tensor(text, graph[name].shapes)
        return scope

    def add(self, text: str, values: Vector) -> None:
        """Add a number; an earlier text for the same values stays."""
        if len(set(values)) > 1:
            self._atoms.setdefault(tuple(values), text)

    def add_float(self, text: str, values: Iterable[float]) -> None:
        """Add a float that the module holds; an earlier text for the same values stays."""
        target = tuple(values)
        if len(set(target)) > 1:
            self._floats.setdefault(target, text)

    def add_derived(self, derived: Derived) -> None:
        """Add an integer that a helper computes, if there are expressions for what it is computed from."""
        arguments = [self.express(values) for values in derived.arguments]
        if len(set(derived.values)) > 1 and None not in arguments:
            text = f"{derived.function}({', '.join(filter(None, arguments))})[{derived.part}]"
            self._derived.setdefault(derived.values, text)

    def add_tensor(self, text: str, shapes: tuple[Vector, ...]) -> None:
        """Add a tensor's sizes: each dimension, all elements, and products of neighbouring dimensions."""
        rank = len(shapes[0]) if shapes else 0
        for dim in range(rank):
            self.add(f"{text}.shape[{dim}]", tuple(s[dim] for s in shapes))
        for first in range(rank):
            for last in range(first + 2, rank + 1):
                values = tuple(prod(s[first:last]) for s in shapes)
                factors = " * ".join(f"{text}.shape[{d}]" for d in range(first, last))
                if len(set(values)) > 1:
                    self._products.setdefault(values, f"{text}.numel()" if last - first == rank else factors)

    def express(self, values: Iterable[int]) -> str | None:
        """Return an expression that gives these values in the captures; None where none is found.

        A number equal in all captures is a constant. A compound expression comes in parentheses.
        """
        target = tuple(values)
        if len(set(target)) == 1:
            return str(target[0])
        if target in self._atoms:
            return self._atoms[target]
        if target in self._products:
            return _wrapped(self._products[target])
        if target in self._derived:
            return self._derived[target]
        return (
            self._with_constant(target)
            or self._sum_of_two(target)
            or self._combined(target)
            or self._from_constant(target)
        )

    def _sum_of_two(self, target: Vector) -> str | None:
        """Try two known numbers plus a constant: a convolution's output grows with its input and its filter.

        Before that, try a small multiple of one. Fewer captures than four (three) would fit by coincidence.
        """
        atoms = list(self._atoms.items())
        for values, text in atoms if len(target) >= 3 else ():
            for factor in range(2, MOST_STRIDE + 1):
                rest = {t - factor * v for t, v in zip(target, values, strict=True)}
                if len(rest) == 1:
                    constant = rest.pop()
                    return f"({text} * {factor} {'+' if constant > 0 else '-'} {abs(constant)})"
        if len(target) < 4:
            return None
        for i, (a, a_text) in enumerate(atoms):
            for b, b_text in atoms[i + 1 :]:
                rest = {t - x - y for t, x, y in zip(target, a, b, strict=True)}
                if len(rest) == 1:
                    constant = rest.pop()
                    tail = f" {'+' if constant > 0 else '-'} {abs(constant)}" if constant else ""
                    return f"({a_text} + {b_text}{tail})"
        return None

    def express_float(self, values: Iterable[float]) -> str | None:
        """Return an expression for a float: n, 1 / n, sqrt(n), 1 / sqrt(n) or n / (n - 1) with n from `express`.

        A float that the module holds comes first, as it is, times a constant, or below one.
        """
        target = tuple(values)
        if len(set(target)) == 1:
            return repr(target[0])
        if (held := self._held(target)) is not None:
            return held
        for number, template in (
            (lambda v: v, "float({})"),
            (lambda v: 1 / v, "1.0 / {}"),
            (lambda v: v * v, "{} ** 0.5"),
            (lambda v: 1 / (v * v), "{} ** -0.5"),
            (lambda v: v / (v - 1), "{0} / max({0} - 1, 1)"),
        ):
            try:
                whole = [_integer(number(v)) for v in target]
            except ZeroDivisionError:
                continue
            if all(n is not None for n in whole) and (text := self.express(n for n in whole if n is not None)):
                return f"({template.format(text)})"
        return None

    def _held(self, target: tuple[float, ...]) -> str | None:
        """Try a float that the module holds, times a constant, or a constant over it."""
        if target in self._floats:
            return self._floats[target]
        for values, text in self._floats.items():
            if not all(values):
                continue
            if _is_one_number(ratios := [t / v for t, v in zip(target, values, strict=True)]):
                return f"({text} * {ratios[0]!r})"
            if _is_one_number(products := [t * v for t, v in zip(target, values, strict=True)]):
                return f"({products[0]!r} / {text})"
        return None

    def _with_constant(self, target: Vector) -> str | None:
        """Try one known number times, over, plus or minus a constant."""
        for values, text in (*self._atoms.items(), *self._products.items()):
            text = _wrapped(text)
            if all(v for v in values) and len({t / v for t, v in zip(target, values, strict=True)}) == 1:
                if target[0] % values[0] == 0:
                    return f"({text} * {target[0] // values[0]})"
                if values[0] % target[0] == 0:
                    return f"({text} // {values[0] // target[0]})"
        for values, text in self._atoms.items():
            differences = {t - v for t, v in zip(target, values, strict=True)}
            if len(differences) == 1:
                difference = differences.pop()
                return f"({text} {'+' if difference > 0 else '-'} {abs(difference)})"
        return None

    def _from_constant(self, target: Vector) -> str | None:
        """Try a constant over one known number, or minus it."""
        for values, text in self._atoms.items():
            if all(values) and len(whole := set(_times(target, values))) == 1:
                return f"({whole.pop()} // {text})"
        for values, text in self._atoms.items():
            if len(sums := {t + v for t, v in zip(target, values, strict=True)}) == 1:
                return f"({sums.pop()} - {text})"
        return None

    def _combined(self, target: Vector) -> str | None:
        """Try a product of two or three known numbers, or such a product divided by one of them."""
        singles = [*self._atoms.items(), *self._products.items()]
        pairs: dict[Vector, str] = {}
        for i, (a, a_text) in enumerate(singles):
            for b, b_text in singles[i:]:
                pairs.setdefault(_times(a, b), f"{_wrapped(a_text)} * {_wrapped(b_text)}")
        if target in pairs:
            return f"({pairs[target]})"
        whole = {**dict(singles), **pairs}
        for divisor, text in singles:
            if (numerator := whole.get(_times(target, divisor))) is not None:
                return f"({numerator} // {_wrapped(text)})"
        for factor, text in singles:
            quotient = tuple(t // f if f and t % f == 0 else -1 for t, f in zip(target, factor, strict=True))
            if quotient in pairs:
                return f"({pairs[quotient]} * {_wrapped(text)})"
        return None


def forward_scope(graph: CapturedGraph, ready: Iterable[tuple[str, str]] = ()) -> Scope:
    """Make the scope of `forward`: inputs, parameters, buffers, held numbers, and tensors that it already has."""
    scope = Scope()
    for kind in ("input", "parameter", "buffer"):
        for p in graph.placeholders:
            if isinstance(p, Placeholder) and p.kind == kind:
                scope.add_tensor(p.text, p.shapes)
    for name, values in graph.attributes.items():
        whole = tuple(v for v in values if isinstance(v, int))
        if len(whole) == len(values):
            scope.add(member(name), whole)
        else:
            scope.add_float(member(name), values)
    for text, name in ready:
        scope.add_tensor(text, graph[name].shapes)
    for derived in graph.derived:
        scope.add_derived(derived)
    return scope


def _times(a: Vector, b: Vector) -> Vector:
    return tuple(x * y for x, y in zip(a, b, strict=True))


def _wrapped(text: str) -> str:
    return f"({text})" if " " in text and not text.startswith("(") else text


def _is_one_number(values: list[float]) -> bool:
    """Whether floats differ by rounding alone."""
    return all(isclose(value, values[0], rel_tol=1e-12) for value in values)


def _integer(value: float) -> int | None:
    """Return the integer that a float is but for rounding: n / (n - 1) has few digits left of a large n."""
    nearest = round(value)
    rounding = max(1e-6, 1e-6 * isqrt(abs(nearest)), nearest * nearest * ROUNDING)
    return nearest if abs(value - nearest) <= min(rounding, 0.4) else None

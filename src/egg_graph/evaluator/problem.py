"""The reference's side of the judgement: inputs, weights, expected answers and budgets, held by the judge alone."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map_only

from egg_graph.evaluator.compare import Emulation, Leaf, relative_error
from egg_graph.evaluator.exchange import flatten
from egg_graph.evaluator.families import AS_GIVEN, apply
from egg_graph.evaluator.precision import CAST, TF32Products, cast_inputs, cast_model, pytorch_at
from egg_graph.evaluator.reference import Reference, one_line
from egg_graph.schema import BadInput, Precision

MARGIN: dict[Precision, float] = {"ieee": 8.0, "tf32": 2.0, "bf16": 2.0, "fp16": 2.0}
"""Budget over PyTorch's own error at that precision. An fp32 sum may be ordered otherwise at several times PyTorch's
error; rounding to TF32, bf16 or fp16 dominates any ordering, and truncation instead of it costs 2.7 times PyTorch's."""
ORDERING = 8.0
"""The same for what fp32 arithmetic costs within a coarser policy."""
FLOOR = {torch.float64: 1e-13, torch.float32: 4e-6, torch.float16: 1e-3, torch.bfloat16: 6e-3}
"""Some ulp of the output's dtype: approximate exponentials and the last rounding are nobody's fault."""
CHAOTIC = 0.1
"""If PyTorch itself is this far from fp64, no answer can be judged."""


class Unevaluable(Exception):
    """No candidate can be judged against this reference; the message says why."""


@dataclass
class Case:
    """One seed at one shape: what a candidate gets, and what it must answer."""

    name: str
    overrides: dict[str, int]
    seed: int
    inputs: list[Any]
    """Positional arguments of forward, cast as the policy says."""
    state: dict[str, torch.Tensor]
    """The reference's weights, cast likewise, constant ones (gamma = 1, beta = 0) randomised."""
    structure: str
    leaves: list[Leaf]
    against: str
    """`fp64`, or `fp32` where the reference cannot run in double precision."""
    input_shapes: dict[str, tuple[int, ...]]
    forward_seed: int
    model: nn.Module = field(repr=False)
    """The reference itself, cast and with these weights."""
    emulate: Callable[[Emulation], list[torch.Tensor] | None] = field(repr=False)
    emulations: dict[Emulation, list[float] | None] = field(default_factory=dict)
    family: str = AS_GIVEN
    """Of the inputs."""

    @property
    def budget(self) -> float:
        return min((leaf.budget for leaf in self.leaves), default=0.0)

    @property
    def nbytes(self) -> int:
        """Of inputs and expected answers."""
        held = [*tree_leaves(self.inputs), *(leaf.expected for leaf in self.leaves)]
        return sum(x.numel() * x.element_size() for x in held if isinstance(x, torch.Tensor))

    def emulated_error(self, index: int, kind: Emulation) -> float | None:
        """Error of one leaf when PyTorch's arithmetic is degraded; None where that cannot run."""
        if kind not in self.emulations:
            answers = self.emulate(kind)
            self.emulations[kind] = (
                None
                if answers is None
                else [
                    relative_error(a.to(leaf.expected.dtype), leaf.expected) if not leaf.exact else 0.0
                    for a, leaf in zip(answers, self.leaves, strict=True)
                ]
            )
        errors = self.emulations[kind]
        return None if errors is None else errors[index]


def build_case(
    reference: Reference, precision: Precision, *, name: str, overrides: dict[str, int], seed: int, device: torch.device
) -> Case:
    """Run the reference at the policy's precision and in fp64.

    Raises:
        BadInput: if the reference cannot be run.
        Unevaluable: if its answer cannot be judged.
    """
    with _on(device):
        model = reference.model(seed)
        inputs = reference.inputs(seed + 1)
    model, inputs = model.to(device), tree_map_only(torch.Tensor, lambda x: x.to(device), inputs)
    randomise_constants(model, seed + 2)
    model = cast_model(model, precision)
    state = {key: value.detach().clone() for key, value in model.state_dict().items()}
    return _case(reference, precision, model, inputs, state, name=name, overrides=overrides, seed=seed, device=device)


def with_other_inputs(
    case: Case, reference: Reference, precision: Precision, *, name: str, seed: int, device: torch.device
) -> Case:
    """The same model and weights, other inputs of the same form.

    Raises:
        BadInput: if the reference cannot be run.
        Unevaluable: if its answer cannot be judged, or the seed changes the form of the inputs.
    """
    with _on(device):
        inputs = reference.inputs(seed + 1)
    inputs = tree_map_only(torch.Tensor, lambda x: x.to(device), inputs)
    other = _case(
        reference,
        precision,
        case.model,
        inputs,
        case.state,
        name=name,
        overrides=case.overrides,
        seed=seed,
        device=device,
    )
    if [_form(x) for x in tree_leaves(other.inputs)] != [_form(x) for x in tree_leaves(case.inputs)]:
        raise Unevaluable("the inputs' form or their plain numbers change with the seed")
    return other


def family_case(
    base: Case, reference: Reference, precision: Precision, *, family: str, seed: int, device: torch.device
) -> Case:
    """The base case's model and weights on inputs of one family.

    Raises:
        BadInput: if PyTorch refuses such inputs.
        Unevaluable: if it answers, but not so that another answer could be judged by it.
    """
    with _on(device):
        drawn = reference.inputs(seed + 1)
    drawn = tree_map_only(torch.Tensor, lambda x: x.to(device), drawn)
    case = _case(
        reference,
        precision,
        base.model,
        apply(family, drawn, seed),
        base.state,
        name=base.name,
        overrides=base.overrides,
        seed=seed,
        device=device,
    )
    if any(not bool((~torch.isnan(leaf.expected)).all()) for leaf in case.leaves):
        raise Unevaluable("PyTorch's own answer holds NaN there")
    return replace(case, family=family)


def _form(value: Any) -> Any:
    """Shape, dtype and strides of a tensor; any other value itself."""
    return (value.shape, value.dtype, value.stride()) if isinstance(value, torch.Tensor) else value


def _case(
    reference: Reference,
    precision: Precision,
    model: nn.Module,
    inputs: list[Any],
    state: dict[str, torch.Tensor],
    *,
    name: str,
    overrides: dict[str, int],
    seed: int,
    device: torch.device,
) -> Case:
    """What the reference answers, and how exactly a candidate must."""
    inputs = cast_inputs(inputs, CAST.get(precision))
    forward_seed = seed + 3
    run = _Runner(reference, model, inputs, forward_seed, device)
    structure, answer = run.at(precision)
    _must_repeat(answer, run.at(precision)[1], run.at(precision, seed=seed + 4)[1])
    expected, against = run.exactly(answer)
    in_fp32 = run.at("ieee")[1] if precision == "tf32" else answer
    # PyTorch may compute some products (attention) in fp32 though TF32 is allowed; the policy allows it to everyone.
    in_tf32 = (run.emulate("tf32") if precision == "tf32" and device.type == "cuda" else None) or answer
    leaves = [_leaf(a, e, f, t, precision) for a, e, f, t in zip(answer, expected, in_fp32, in_tf32, strict=True)]
    names = reference.forward_names(len(inputs))
    shapes = {n: tuple(x.shape) for n, x in zip(names, inputs, strict=True) if isinstance(x, torch.Tensor)}
    return Case(
        name, overrides, seed, inputs, state, structure, leaves, against, shapes, forward_seed, model, run.emulate
    )


def randomise_constants(model: nn.Module, seed: int) -> None:
    """Move parameters that start constant (gamma = 1, beta = 0) off their constant, so that ignoring them shows."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if not parameter.is_floating_point() or not parameter.numel():
                continue
            low, high = float(parameter.min()), float(parameter.max())
            if low == high:
                noise = torch.randn(parameter.shape, generator=generator).clamp_(-2, 2).to(parameter)
                parameter.copy_(0.25 * noise if low == 0.0 else low * (1 + 0.25 * noise))


@dataclass
class _Runner:
    """Runs the reference on fresh copies of model and inputs: a forward may change both."""

    reference: Reference
    model: nn.Module
    inputs: list[Any]
    seed: int
    device: torch.device

    def at(self, precision: Precision, *, seed: int | None = None) -> tuple[str, list[torch.Tensor]]:
        with pytorch_at(precision, self.device):
            structure, leaves = self._run(self.model, self.inputs, seed)
        if not leaves or not all(isinstance(leaf, torch.Tensor) for leaf in leaves):
            raise BadInput("reference: forward must return a tensor, or a tuple, list or dict of tensors")
        return structure, leaves

    def exactly(self, answer: list[torch.Tensor]) -> tuple[list[torch.Tensor], str]:
        """The answer in fp64 (integers as they are); in fp32 where the reference cannot run in fp64."""
        for dtype, name in ((torch.float64, "fp64"), (torch.float32, "fp32")):
            try:
                model = copy.deepcopy(self.model).to(dtype)
                with pytorch_at("ieee", self.device):
                    _, leaves = self._run(model, cast_inputs(self.inputs, dtype), None)
            except (RuntimeError, BadInput):
                continue  # a dtype written into the reference, or no memory: the next best
            return [_widen(leaf, like) for leaf, like in zip(leaves, answer, strict=True)], name
        raise Unevaluable("the reference runs at the declared precision only; no better answer to judge by")

    def emulate(self, kind: Emulation) -> list[torch.Tensor] | None:
        try:
            if kind == "bf16":
                model = copy.deepcopy(self.model).to(torch.bfloat16)
                return self._run(model, cast_inputs(self.inputs, torch.bfloat16), None)[1]
            math = torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH)
            with math, pytorch_at("ieee", self.device), TF32Products(truncate=kind == "truncated"):
                return self._run(self.model, self.inputs, None)[1]
        except (RuntimeError, BadInput):
            return None  # this reference cannot run so; then there is nothing to recognise

    def _run(self, model: nn.Module, inputs: list[Any], seed: int | None) -> tuple[str, list[Any]]:
        model, inputs = copy.deepcopy(model), cast_inputs(inputs, None)
        torch.manual_seed(self.seed if seed is None else seed)
        try:
            with torch.no_grad():
                return flatten(model(*inputs))
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            raise BadInput(f"reference: forward fails: {one_line(error)}") from error


def _leaf(
    answer: torch.Tensor, expected: torch.Tensor, in_fp32: torch.Tensor, in_tf32: torch.Tensor, precision: Precision
) -> Leaf:
    if not (answer.dtype.is_floating_point or answer.dtype.is_complex):
        share = float((answer != expected).double().mean()) if answer.numel() else 0.0
        return Leaf(expected, answer.dtype, budget=2 * share, slack=0.0, pytorch_error=share)
    finite = torch.isfinite(expected)
    if not bool(finite.any()):
        raise Unevaluable("the reference's answer is nowhere finite")
    wide = answer.to(expected.dtype)
    if not bool((torch.isfinite(wide) == finite).all()):
        raise Unevaluable("at the declared precision the reference overflows where it does not in fp64")
    error = relative_error(wide, expected)
    if not float(torch.where(finite, expected.abs(), 0.0).max()) > 0.0:
        raise Unevaluable("the reference's answer is zero everywhere, whatever its input: any empty kernel would pass")
    if error > CHAOTIC:
        raise Unevaluable(f"PyTorch's own answer is {error:.1e} off fp64 at this precision: nothing can be told apart")
    ordering = ORDERING * relative_error(in_fp32.to(expected.dtype), expected) if precision in ("ieee", "tf32") else 0.0
    floor = FLOOR.get(torch.empty(0, dtype=answer.dtype).real.dtype if answer.is_complex() else answer.dtype, 4e-6)
    worst = max(float(torch.where(finite, (x - expected).abs(), 0.0).max()) for x in (wide, in_tf32.to(expected.dtype)))
    allowed = max(error, relative_error(in_tf32.to(expected.dtype), expected))
    return Leaf(expected, answer.dtype, max(MARGIN[precision] * allowed, ordering, floor), 8 * worst, error)


def _must_repeat(first: list[torch.Tensor], again: list[torch.Tensor], reseeded: list[torch.Tensor]) -> None:
    """Same seed, same answer; and the seed must not matter, or no other code could give that answer."""
    for other, what in ((again, "answers differently when run twice with one seed"), (reseeded, "is random")):
        for a, b in zip(first, other, strict=True):
            if a.shape != b.shape or not _close(a, b):
                raise Unevaluable(
                    f"the reference {what} (dropout in train mode?): there is no one answer to compare with"
                )


def _close(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.dtype.is_floating_point or a.dtype.is_complex:
        return bool(
            torch.allclose(a, b, rtol=1e-3, atol=1e-4 * float(a.abs().nan_to_num(0, 0, 0).max()), equal_nan=True)
        )
    return bool((a == b).all())


def _widen(leaf: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    if like.is_complex():
        return leaf.to(torch.complex128)
    return leaf.to(torch.float64) if like.is_floating_point() else leaf


def _on(device: torch.device) -> AbstractContextManager[Any]:
    """Draw inputs and weights where they are needed: gigabytes on a GPU, not through the CPU."""
    return torch.device(device) if device.type == "cuda" else nullcontext()

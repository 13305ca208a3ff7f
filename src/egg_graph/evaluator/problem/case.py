"""The reference's side of the judgement: inputs, weights, expected answers and budgets, held by the judge alone."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map_only

from egg_graph.evaluator.problem.budgets import Unevaluable, calibrated
from egg_graph.evaluator.problem.families import AS_GIVEN, OF_INTEGERS, apply
from egg_graph.evaluator.problem.leaf_comparison import Emulation, Leaf, relative_error
from egg_graph.evaluator.problem.operators import RECURRENCE, UNDEFINED, OperatorWatch
from egg_graph.evaluator.problem.precision import CAST, PRODUCTS, TF32Products, cast_inputs, cast_model, pytorch_at
from egg_graph.evaluator.problem.reference import Reference, one_line
from egg_graph.evaluator.wire.exchange import flatten
from egg_graph.schema import BadInput, Precision

__all__ = [
    "Case",
    "Unevaluable",
    "build_case",
    "family_case",
    "plain_answer",
    "variant",
    "with_other_inputs",
    "with_other_weights",
]

NEARBY, TF32_ULP = 2.0**-23, 2.0**-10
"""Relative size of the changes that show how much a problem amplifies rounding: fp32's, and TF32's where products are
of numbers so rounded: a softmax of large scores makes much of little, and each right kernel another much."""
EXACT_OPERATORS = frozenset(
    {"mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "dot", "convolution", "linear", "add", "sub", "rsub", "mul", "div"}
    | {
        "neg",
        "sum",
        "cumsum",
        "relu",
        "clamp",
        "clamp_min",
        "clamp_max",
        "hardtanh",
        "maximum",
        "minimum",
        "max",
        "min",
    }
    | {"amax", "amin", "abs", "where", "tril", "triu", "max_pool2d_with_indices", "max_pool3d_with_indices", "cat"}
    | {"stack", "clone", "copy_", "_to_copy", "constant_pad_nd", "flip", "leaky_relu", "mean", "avg_pool2d"}
)
"""ATen operators that keep numbers of few significant bits exact, in whatever order they sum (`mean` and the like are
exact only if the count is a power of two; the answer itself tells)."""
ON_INTEGERS = frozenset(
    {"add", "sub", "rsub", "mul", "div", "floor_divide", "remainder", "fmod", "neg", "abs", "sign", "sum", "cumsum"}
    | {"amax", "amin", "max", "min", "argmax", "argmin", "maximum", "minimum", "clamp", "clamp_min", "clamp_max"}
    | {"where", "eq", "ne", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "cat", "stack", "clone", "copy_"}
    | {"_to_copy", "mean", "sort", "cummax", "cummin", "relu", "flip", "pow", "square"}
)
"""Operators that take integers for numbers, whatever they are; no index among them."""
MOVES = frozenset({"clone", "copy_", "cat", "stack", "flip", "roll", "constant_pad_nd", "tril", "triu"})
"""Operators that move numbers as they are."""
PLACES = frozenset({"gather", "index", "index_select", "embedding", "take", "repeat", "repeat_interleave", "im2col"})
"""Operators that do so by an index, or several times over."""
_VIEWS = frozenset(
    {
        "view",
        "_unsafe_view",
        "reshape",
        "t",
        "transpose",
        "permute",
        "expand",
        "squeeze",
        "unsqueeze",
        "slice",
        "select",
    }
    | {"detach", "alias", "as_strided", "split", "split_with_sizes", "unbind", "empty", "empty_like", "zeros", "ones"}
    | {"zeros_like", "ones_like", "new_zeros", "full", "full_like", "lift_fresh", "arange", "lt", "le", "gt", "ge"}
)
"""Operators that make or move numbers, and round nothing."""
ORDERS_EQUALS = frozenset({"topk", "sort", "max", "min", "kthvalue", "median", "mode", "cummax", "cummin", "unique"})
"""Operators whose index among equal values nobody has promised (`argmax` and `argmin` give the first)."""
MAKES_EQUALS = OF_INTEGERS | {"ties", "integers", "infinite", "minus_infinite", "zero_rows"}
"""Families among whose values, or what is computed from them, some are equal."""


@dataclass(frozen=True)
class Update:
    """What a buffer is after a forward that changes it."""

    expected: torch.Tensor
    """In fp64 where the reference runs in it."""
    budget: float
    """Largest relative L2 error."""


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
    updates: dict[str, Update] = field(default_factory=dict)
    """Buffers and parameters that the reference's forward itself changes (running statistics)."""
    changes_inputs: bool = False
    """The reference writes to its inputs."""
    aliases: bool = False
    """The reference answers with memory of an input, parameter or buffer."""
    operators: frozenset[str] = frozenset()
    """ATen operators of one forward, without namespace and overload."""

    @property
    def budget(self) -> float:
        return min((leaf.budget for leaf in self.leaves), default=0.0)

    @property
    def moves_only(self) -> bool:
        """The reference computes nothing: it puts numbers into another order."""
        return bool(self.operators & (MOVES | PLACES)) and self.operators <= MOVES | PLACES | _VIEWS

    @property
    def answer_bytes(self) -> int:
        """Of the leaves that a candidate has to return."""
        return sum(leaf.expected.numel() * leaf.dtype.itemsize for leaf in self.leaves)

    @property
    def nbytes(self) -> int:
        """Of inputs and expected answers."""
        answers = [x for leaf in self.leaves for x in (leaf.expected, leaf.pytorch)]
        held = [*tree_leaves(self.inputs), *answers]
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

    def case(model: nn.Module) -> Case:
        model = cast_model(model, precision)
        return _case(
            reference, precision, model, inputs, _state(model), name=name, overrides=overrides, seed=seed, device=device
        )

    try:
        built = case(_randomised(model, seed + 2))
        spoilt = _holds_nan(built) and bool(built.state)
    except Unevaluable:
        spoilt = True
    if spoilt:  # by a weight that must not change its sign: the root of it is taken, say
        built = case(_randomised(model, seed + 2, signs=False))
    if not built.updates:
        return built
    return case(_aged(built.model, list(built.updates), seed + 4))


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
    other = _case(reference, precision, case.model, inputs, case.state, like=case, name=name, seed=seed)
    if [_form(x) for x in tree_leaves(other.inputs)] != [_form(x) for x in tree_leaves(case.inputs)]:
        raise Unevaluable("the inputs' form or their plain numbers change with the seed")
    return other


def plain_answer(
    reference: Reference, precision: Precision, device: torch.device, *, weights: int, inputs: int
) -> tuple[list[Any], list[torch.Tensor]]:
    """PyTorch's answer at the declared precision with the constructor's own weights, and the inputs it was asked for.

    Args:
        reference: the task's.
        precision: its policy.
        device: where to run.
        weights: seed of the constructor.
        inputs: seed of `get_inputs`.

    Raises:
        BadInput: if the reference cannot be run.
    """
    with _on(device):
        model, drawn = reference.model(weights), reference.inputs(inputs)
    drawn = tree_map_only(torch.Tensor, lambda x: x.to(device), drawn)
    drawn = cast_inputs(drawn, CAST.get(precision))
    runner = _Runner(reference, cast_model(model.to(device), precision), drawn, inputs, device)
    return drawn, runner.at(precision).leaves


def with_other_weights(case: Case, reference: Reference, precision: Precision, *, seed: int) -> Case:
    """The same inputs, other weights.

    Raises:
        BadInput: if the reference cannot be run.
        Unevaluable: if its answer cannot be judged.
    """
    device = _device_of(case)
    with _on(device):
        model = reference.model(seed)
    model = cast_model(_randomised(model.to(device), seed + 2), precision)
    return _case(reference, precision, model, case.inputs, _state(model), like=case, seed=seed)


def variant(
    case: Case,
    reference: Reference,
    precision: Precision,
    *,
    inputs: list[Any] | None = None,
    model: nn.Module | None = None,
    family: str = AS_GIVEN,
) -> Case:
    """The same question with these inputs, or this copy of the reference.

    Raises:
        BadInput: if PyTorch refuses it.
        Unevaluable: if it answers, but not so that another answer could be judged by it.
    """
    state = case.state if model is None else _state(model)
    given = case.inputs if inputs is None else inputs
    return _case(reference, precision, model or case.model, given, state, like=case, seed=case.seed, family=family)


def family_case(case: Case, reference: Reference, precision: Precision, *, family: str, seed: int) -> Case:
    """The same form and constructor arguments, inputs of one family (see `families`).

    Weights are those of `case`; under `integers`, the same with few significant bits.

    Raises:
        BadInput: if PyTorch refuses such inputs.
        Unevaluable: if it answers, but not so that another answer could be judged by it.
    """
    device = _device_of(case)
    with _on(device):
        drawn = reference.inputs(seed + 1)
    drawn = tree_map_only(torch.Tensor, lambda x: x.to(device), drawn)
    if family in OF_INTEGERS and not case.operators <= ON_INTEGERS | _VIEWS:  # a wrong index would end a GPU's context
        raise Unevaluable("its integers are more than numbers: indices or labels, or it is not known what they are")
    model = _few_bits(case.model) if family == "integers" and case.state else case.model
    state = case.state if model is case.model else _state(model)
    other = _case(reference, precision, model, apply(family, drawn, seed), state, like=case, seed=seed, family=family)
    if _holds_nan(other) and not _holds_nan(case):
        raise Unevaluable("PyTorch's own answer holds NaN there")
    if UNDEFINED in other.operators - case.operators:
        raise Unevaluable("the reference converts NaN, or what is out of range, to integers there")
    if family in ("infinite", "minus_infinite") and other.operators & (PRODUCTS | {RECURRENCE}):
        raise Unevaluable(
            "infinities within matrix products and recurrences are no contract: a part taken first is NaN"
        )
    if family in MAKES_EQUALS and _orders_equals(other):
        raise Unevaluable("which index stands for equal values is nobody's contract")
    if family == "integers" and precision in ("ieee", "tf32") and other.operators <= EXACT_OPERATORS | _VIEWS:
        other.leaves = [_exactly_so(leaf) for leaf in other.leaves]
    return other


def _holds_nan(case: Case) -> bool:
    return any(bool(torch.isnan(leaf.expected).any()) for leaf in case.leaves)


def _orders_equals(case: Case) -> bool:
    return bool(case.operators & ORDERS_EQUALS) and any(leaf.exact for leaf in case.leaves)


def _exactly_so(leaf: Leaf) -> Leaf:
    """No error at all is allowed where PyTorch makes none."""
    if leaf.exact or leaf.pytorch is None or not torch.equal(leaf.pytorch.to(leaf.expected.dtype), leaf.expected):
        return leaf
    return replace(leaf, budget=0.0, slack=0.0, bias_budget=0.0)


def _few_bits(model: nn.Module) -> nn.Module:
    """A copy whose floating parameters are small multiples of a power of two."""
    model = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.is_floating_point() and parameter.numel():
                rms = float(parameter.double().square().mean().sqrt())
                step = 2.0 ** math.floor(math.log2(max(rms, 1e-6) / 8))
                parameter.copy_((parameter / step).round().clamp(-31, 31) * step)
    return model


def _state(model: nn.Module) -> dict[str, torch.Tensor]:
    return {key: value.detach().clone() for key, value in model.state_dict().items()}


def _device_of(case: Case) -> torch.device:
    held = [*tree_leaves(case.inputs), *case.state.values(), *(leaf.expected for leaf in case.leaves)]
    return next(x.device for x in held if isinstance(x, torch.Tensor))


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
    seed: int,
    like: Case | None = None,
    name: str = "",
    overrides: dict[str, int] | None = None,
    device: torch.device | None = None,
    family: str = AS_GIVEN,
) -> Case:
    """What the reference answers, and how exactly a candidate must. `like` lends what is not given."""
    if like is not None:
        name, overrides, device = name or like.name, like.overrides, _device_of(like)
    assert overrides is not None and device is not None
    inputs = cast_inputs(inputs, CAST.get(precision))
    run = _Runner(reference, model, inputs, seed + 3, device)
    first = run.at(precision)
    answer = first.leaves
    _must_repeat(answer, run.at(precision).leaves, run.at(precision, seed=seed + 4).leaves, model)
    expected, against, operators, updates = run.exactly(answer)
    in_fp32 = run.at("ieee").leaves if precision == "tf32" else answer
    # PyTorch may compute some products (attention) in fp32 though TF32 is allowed; the policy allows it to everyone.
    in_tf32 = (run.emulate("tf32") if precision == "tf32" and device.type == "cuda" else None) or answer
    nearby: list[list[torch.Tensor]] = []
    if family != AS_GIVEN and against == "fp64":
        rounded = precision == "tf32" and bool(operators & PRODUCTS)
        nearby = run.nearby(expected, TF32_ULP, 4) if rounded else run.nearby(expected, NEARBY, 2)
    leaves = [
        calibrated(a, e, f, t, [near[i] for near in nearby], precision)
        for i, (a, e, f, t) in enumerate(zip(answer, expected, in_fp32, in_tf32, strict=True))
    ]
    if operators <= MOVES | _VIEWS:
        leaves = [_exactly_so(leaf) for leaf in leaves]
    names = reference.forward_names(len(inputs))
    return Case(
        name=name,
        overrides=overrides,
        seed=seed,
        inputs=inputs,
        state=state,
        structure=first.structure,
        leaves=leaves,
        against=against,
        input_shapes={n: tuple(x.shape) for n, x in zip(names, inputs, strict=True) if isinstance(x, torch.Tensor)},
        forward_seed=run.seed,
        model=model,
        emulate=run.emulate,
        family=family,
        updates={name: _update(value, updates.get(name, value)) for name, value in first.updates.items()},
        changes_inputs=first.changes_inputs,
        aliases=first.aliases,
        operators=operators,
    )


def _randomised(model: nn.Module, seed: int, *, signs: bool = True) -> nn.Module:
    """A copy whose parameters that start constant (gamma = 1, beta = 0) are off their constant, some of them of the
    other sign, so that ignoring them shows, or their sign, or what is far from the constant."""
    model = copy.deepcopy(model)
    generator = torch.Generator().manual_seed(seed)
    spread = 1.0 if signs else 0.25
    with torch.no_grad():
        for parameter in model.parameters():
            if not parameter.is_floating_point() or not parameter.numel():
                continue
            low, high = float(parameter.min()), float(parameter.max())
            if low == high:
                noise = torch.randn(parameter.shape, generator=generator).clamp_(-2, 2).to(parameter)
                parameter.copy_(0.25 * noise if low == 0.0 else low * (1 + spread * noise))
    return model


def _aged(model: nn.Module, updated: Sequence[str], seed: int) -> nn.Module:
    """A copy as it is after some use: what its forward updates (running statistics, a counter) is not as it began."""
    model = copy.deepcopy(model)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in model.state_dict().items():
            if name not in updated or not value.numel():
                continue
            noise = torch.rand(value.shape, generator=generator).to(value.device)
            if value.is_floating_point():
                value.copy_(value * (1 + 0.5 * noise) + torch.where(value == 0, 0.5 * noise - 0.25, 0.0))
            elif value.dtype != torch.bool:
                value.add_((7 * noise).to(value.dtype) + 2)
    return model


@dataclass
class _Answer:
    """What one forward of the reference gave and left behind."""

    structure: str
    leaves: list[torch.Tensor]
    updates: dict[str, torch.Tensor] = field(default_factory=dict)
    changes_inputs: bool = False
    aliases: bool = False


@dataclass
class _Runner:
    """Runs the reference on fresh copies of model and inputs: a forward may change both."""

    reference: Reference
    model: nn.Module
    inputs: list[Any]
    seed: int
    device: torch.device

    def at(self, precision: Precision, *, seed: int | None = None) -> _Answer:
        with pytorch_at(precision, self.device):
            answer = self._run(self.model, self.inputs, seed)
        if not answer.leaves or not all(isinstance(leaf, torch.Tensor) for leaf in answer.leaves):
            raise BadInput("reference: forward must return a tensor, or a tuple, list or dict of tensors")
        return answer

    def exactly(
        self, answer: list[torch.Tensor]
    ) -> tuple[list[torch.Tensor], str, frozenset[str], dict[str, torch.Tensor]]:
        """The answer in fp64 (integers as they are; in fp32 where the reference cannot run in fp64), in which of the
        two, by which operators, and the buffers that it changed."""
        for dtype, name in ((torch.float64, "fp64"), (torch.float32, "fp32")):
            operators = OperatorWatch()
            try:
                given = self._wide(self.inputs, dtype, operators)
            except (RuntimeError, BadInput):
                continue  # a dtype written into the reference, or no memory: the next best
            wide = [_widen(leaf, like) for leaf, like in zip(given.leaves, answer, strict=True)]
            return wide, name, frozenset(operators.names), given.updates
        raise Unevaluable("the reference runs at the declared precision only; no better answer to judge by")

    def nearby(self, expected: list[torch.Tensor], ulp: float, draws: int) -> list[list[torch.Tensor]]:
        """fp64 answers to inputs that differ by up to half an ulp. Where they do not fit, `expected` itself: the
        answer's infinities move, and PyTorch's own error must do."""
        generator = torch.Generator().manual_seed(self.seed)
        answers = []
        for _ in range(draws):
            inputs = tree_map_only(torch.Tensor, lambda x: _nudge(x, ulp, generator), self.inputs)
            leaves = self._wide(inputs, torch.float64).leaves
            answers.append(
                [
                    near if torch.equal(torch.isfinite(near), torch.isfinite(e)) else e
                    for e, near in ((e, _widen(leaf, e)) for leaf, e in zip(leaves, expected, strict=True))
                ]
            )
        return answers

    def _wide(
        self, inputs: list[Any], dtype: torch.dtype, watching: AbstractContextManager[Any] | None = None
    ) -> _Answer:
        model = copy.deepcopy(self.model).to(dtype)
        with pytorch_at("ieee", self.device):
            return self._run(model, cast_inputs(inputs, dtype), None, watching)

    def emulate(self, kind: Emulation) -> list[torch.Tensor] | None:
        try:
            if kind == "bf16":
                model = copy.deepcopy(self.model).to(torch.bfloat16)
                return self._run(model, cast_inputs(self.inputs, torch.bfloat16), None).leaves
            math = torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH)
            with math, pytorch_at("ieee", self.device), TF32Products(truncate=kind == "truncated"):
                return self._run(self.model, self.inputs, None).leaves
        except (RuntimeError, BadInput):
            return None  # this reference cannot run so; then there is nothing to recognise

    def _run(
        self,
        model: nn.Module,
        inputs: list[Any],
        seed: int | None,
        watching: AbstractContextManager[Any] | None = None,
    ) -> _Answer:
        model, given = copy.deepcopy(model), cast_inputs(inputs, None)
        before = _state(model)
        torch.manual_seed(self.seed if seed is None else seed)
        try:
            with torch.no_grad(), watching or nullcontext():
                structure, leaves = flatten(model(*given))
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            raise BadInput(f"reference: forward fails: {one_line(error)}") from error
        after = model.state_dict()
        held = [*_tensors(given), *model.parameters(), *model.buffers()]
        storages = {x.untyped_storage().data_ptr() for x in held if x.numel()}
        return _Answer(
            structure,
            leaves,
            updates={k: v.detach().clone() for k, v in after.items() if k in before and not _same(before[k], v)},
            changes_inputs=any(not _same(a, b) for a, b in zip(_tensors(inputs), _tensors(given), strict=True)),
            aliases=any(x.numel() and x.untyped_storage().data_ptr() in storages for x in _tensors(leaves)),
        )


def _update(value: torch.Tensor, expected: torch.Tensor) -> Update:
    """An update's budget, from PyTorch's own error at the declared precision."""
    if not value.is_floating_point():
        return Update(expected, 0.0)
    return Update(expected, max(1e-3, 8 * relative_error(value.to(expected.dtype), expected)))


def _tensors(values: Sequence[Any]) -> list[torch.Tensor]:
    return [x for x in tree_leaves(list(values)) if isinstance(x, torch.Tensor)]


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Equal, NaN counting as equal to NaN."""
    return bool(((a == b) | ((a != a) & (b != b))).all())


def _nudge(x: torch.Tensor, ulp: float, generator: torch.Generator) -> torch.Tensor:
    """Every element moved by up to half an ulp, a relative one, in fp64; integers as they are."""
    if not x.is_floating_point():
        return x
    draw = torch.rand(x.shape, generator=generator, dtype=torch.float64).to(x.device)
    return x.double() * (1 + ulp * (draw - 0.5))


def _must_repeat(
    first: list[torch.Tensor], again: list[torch.Tensor], reseeded: list[torch.Tensor], model: nn.Module
) -> None:
    """Same seed, same answer; and the seed must not matter, or no other code could give that answer."""
    for other, what in ((again, "answers differently when run twice with one seed"), (reseeded, "is random")):
        for a, b in zip(first, other, strict=True):
            if a.shape != b.shape or not _close(a, b):
                raise Unevaluable(
                    f"the reference {what}{_dropout(model)}: there is no one answer to compare with; construct it with "
                    "dropout probability 0, call .eval() in Model's constructor, or make the noise an input",
                    "stochastic_problem",
                )


def _dropout(model: nn.Module) -> str:
    """Dropout that is active, by name."""
    active = [
        f"{name or 'Model'} = {module}"
        for name, module in model.named_modules()
        if isinstance(module, nn.modules.dropout._DropoutNd) and module.training and module.p > 0
    ]
    return f" ({', '.join(active)} in train mode)" if active else " (dropout in train mode, or a random draw?)"


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

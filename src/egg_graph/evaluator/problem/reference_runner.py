"""Run a reference's forward: at the declared precision, in fp64, on nearby inputs, and under coarser arithmetic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import torch
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map_only

from egg_graph.evaluator.device.access import MORE_ROOM_FOLLOWS, give_way
from egg_graph.evaluator.problem.case import Case, Unevaluable
from egg_graph.evaluator.problem.error_sums import pieces
from egg_graph.evaluator.problem.half_arithmetic import HalfArithmetic
from egg_graph.evaluator.problem.leaf_comparison import Emulation
from egg_graph.evaluator.problem.model_copy import copy_of
from egg_graph.evaluator.problem.operators import OperatorNames
from egg_graph.evaluator.problem.precision import TF32Products, cast_inputs, pytorch_at
from egg_graph.evaluator.problem.reference import one_line
from egg_graph.evaluator.problem.roundings import RoundedOtherwise, keep_numbers_in_fp32, moved, needs_more_than_fp32
from egg_graph.evaluator.problem.seeding import seed_generators
from egg_graph.evaluator.problem.selections import Selection, Selections
from egg_graph.evaluator.problem.weights import copy_state
from egg_graph.evaluator.wire.exchange import flatten
from egg_graph.schema import BadInput, Precision


@dataclass
class ReferenceAnswer:
    """The answer of one forward of the reference, and its side effects."""

    structure: str
    """Structure of the answer: `(*, {a: *})`, where * is a tensor."""
    leaves: list[torch.Tensor]
    """Tensors of the answer."""
    updates: dict[str, torch.Tensor] = field(default_factory=dict)
    """Buffers and parameters that the forward changed, by name, as they are after it."""
    changes_inputs: bool = False
    """The forward wrote to its inputs."""
    selections: list[Selection | None] = field(default_factory=list)
    """For each leaf, what its indices were selected from, where it holds indices and that is known."""
    aliases: bool = False
    """The answer lies in the memory of an input, parameter or buffer."""


class ExactAnswer(NamedTuple):
    """The most exact answer that a reference can give."""

    leaves: list[torch.Tensor]
    """Tensors in float64 or complex128; integers as they are."""
    against: str
    """`fp64`, or `fp32` if the reference cannot run in fp64."""
    operators: frozenset[str]
    """ATen operators of the forward."""
    updates: dict[str, torch.Tensor]
    """Buffers and parameters that the forward changed, by name."""
    selections: list[Selection | None]
    """For each leaf, what its indices were selected from, where it holds indices and that is known."""
    rounds_to: frozenset[torch.dtype] = frozenset()
    """Dtypes to which the forward rounds numbers on its way, whatever it runs in: 16-bit ones, and fp32 within fp64."""


@dataclass
class ReferenceRunner:
    """Runs a reference on fresh copies of model and inputs, since a forward may change both.

    Args:
        model: the reference's module, cast as the policy says.
        inputs: positional arguments of forward, cast likewise.
        seed: seed of torch's generator before each forward.
        device: where model and inputs lie.
    """

    model: nn.Module
    inputs: list[Any]
    seed: int
    device: torch.device

    @classmethod
    def of(cls, case: Case, inputs: list[Any] | None = None) -> Self:
        """The runner of a case, on its own inputs or on others."""
        return cls(case.model, case.inputs if inputs is None else inputs, case.forward_seed, case.device)

    def at(
        self,
        precision: Precision,
        *,
        seed: int | None = None,
        recorder: AbstractContextManager[Any] | None = None,
    ) -> ReferenceAnswer:
        """Run at a precision.

        Args:
            precision: the policy for products.
            seed: seed of torch's generator instead of the runner's own.
            recorder: is active during the forward.

        Raises:
            BadInput: if forward fails or returns something else than tensors.
        """
        with pytorch_at(precision, self.device):
            answer = self._run(self.model, self.inputs, seed, recorder)
        if not answer.leaves or not all(isinstance(leaf, torch.Tensor) for leaf in answer.leaves):
            raise BadInput("reference: forward must return a tensor, or a tuple, list or dict of tensors")
        return answer

    def exactly(self, like: list[torch.Tensor], against: str = "") -> ExactAnswer:
        """Run in fp64, or in fp32 if the reference cannot run in fp64.

        Where others may hold the memory that fp64 lacks, fp32 does not stand in: it is tried again in more memory.

        Args:
            like: the answer at the declared precision; its integers tell which leaves stay integers.
            against: the one of the two to run in; either if empty.

        Raises:
            Unevaluable: if the reference runs in neither.
            torch.OutOfMemoryError: if it may run in one for which memory ran out, and runs in no other.
        """
        no_memory = ""
        for dtype, name in ((torch.float64, "fp64"), (torch.float32, "fp32")):
            if against not in ("", name):
                continue
            recorder = OperatorNames()
            try:
                answer = self._run_in(dtype, self.inputs, recorder)
            except torch.OutOfMemoryError as error:
                no_memory = str(error)  # not the error itself, whose traceback holds tensors
                if MORE_ROOM_FOLLOWS.get()():
                    break
                continue
            except (RuntimeError, BadInput):
                continue  # a dtype is written into the reference: try the next one
            leaves = [_widen(leaf, target) for leaf, target in zip(answer.leaves, like, strict=True)]
            names, rounds_to = frozenset(recorder.names), frozenset(recorder.rounds_to)
            return ExactAnswer(leaves, name, names, answer.updates, answer.selections, rounds_to)
        if no_memory:
            raise torch.OutOfMemoryError(no_memory)
        raise Unevaluable("the reference runs at the declared precision only; no better answer to judge by")

    def nearby(
        self, exact: ExactAnswer, ulp: float, draws: int, *, rounded: bool = False
    ) -> Iterator[list[torch.Tensor]]:
        """Run on inputs that differ by up to half an ulp, in fp64 if the exact answer was made in it.

        A leaf whose infinities or NaN move is replaced by the exact one, so that it does not widen any budget.

        Args:
            exact: the answer to the inputs themselves.
            ulp: relative size of one ulp.
            draws: number of answers.
            rounded: numbers on the way to the answer, and those that the module keeps, differ as in fp32, too.

        Where an assertion of the reference refuses such inputs, as one of spikes all numbers but 0 and 1, none is near.

        Raises:
            BadInput: if forward fails otherwise.
        """
        generator = torch.Generator(self.device).manual_seed(self.seed)
        for _ in range(draws):
            inputs = tree_map_only(torch.Tensor, lambda x: moved(x, ulp, generator), self.inputs)
            rounding = RoundedOtherwise(generator) if rounded else None
            try:
                leaves = self._like_exact(exact, inputs, rounding, numbers_in_fp32=rounded)
            except BadInput as error:
                if isinstance(error.__cause__, AssertionError):
                    return
                raise
            yield leaves
            del leaves

    def with_numbers_in_fp32(self, exact: ExactAnswer) -> Iterator[list[torch.Tensor]]:
        """Run in fp64 with the module's numbers rounded to fp32, as a kernel gets them; nothing if fp32 holds all.

        Args:
            exact: the answer in fp64, in place of a leaf whose infinities or NaN move.

        Raises:
            BadInput: if forward fails.
        """
        if needs_more_than_fp32(self.model):
            yield self._like_exact(exact, self.inputs, numbers_in_fp32=True)

    def _like_exact(
        self,
        exact: ExactAnswer,
        inputs: list[Any],
        recorder: AbstractContextManager[Any] | None = None,
        *,
        numbers_in_fp32: bool,
    ) -> list[torch.Tensor]:
        """Run as for the exact answer; a leaf whose infinities or NaN are not those of that one is replaced by it."""
        dtype = torch.float64 if exact.against == "fp64" else torch.float32
        leaves = self._run_in(dtype, inputs, recorder, numbers_in_fp32=numbers_in_fp32).leaves
        return _alike([_widen(leaf, e) for leaf, e in zip(leaves, exact.leaves, strict=True)], exact.leaves)

    def rounded_otherwise(self, expected: list[torch.Tensor], draws: int) -> Iterator[list[torch.Tensor]]:
        """Run with operands of products rounded as finely as TF32 has it, and each time to other sides.

        A leaf whose infinities or NaN move is replaced by `expected`, so that it does not widen any budget.

        Args:
            expected: the fp64 answer.
            draws: number of answers.

        Raises:
            BadInput: if forward fails.
        """
        for draw in range(draws):
            leaves = self._with_products(TF32Products(grid=2.0 ** ((draw + 1) / (draws + 1))))
            yield _alike(leaves, expected)
            del leaves

    def emulate(self, kind: Emulation) -> list[torch.Tensor] | None:
        """Run under a coarser arithmetic; None if the reference cannot run under it."""
        try:
            if kind == "bf16":
                model = copy_of(self.model).to(torch.bfloat16)
                return self._run(model, cast_inputs(self.inputs, torch.bfloat16), None).leaves
            return self._with_products(TF32Products(truncate=kind == "truncated"))
        except (RuntimeError, BadInput):
            return None

    def in_halves(self, expected: list[torch.Tensor], dtype: torch.dtype) -> Iterator[list[torch.Tensor]]:
        """Run as a kernel for 16-bit operands does (`HalfArithmetic`); nothing if that changes no number, or fails.

        Args:
            expected: the fp64 answer, in place of a leaf whose infinities or NaN move.
            dtype: of the operands.
        """
        halves = HalfArithmetic(dtype)
        try:
            leaves = self._with_products(halves)
        except (RuntimeError, BadInput):
            return
        if halves.used:
            yield _alike(leaves, expected)

    def _with_products(self, reduced: TF32Products | HalfArithmetic) -> list[torch.Tensor]:
        """Run with reduced operands of products, those within attention included."""
        decomposed = torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH)
        with decomposed, pytorch_at("ieee", self.device), reduced:
            return self._run(self.model, self.inputs, None).leaves

    def _run_in(
        self,
        dtype: torch.dtype,
        inputs: list[Any],
        recorder: AbstractContextManager[Any] | None = None,
        *,
        numbers_in_fp32: bool = False,
    ) -> ReferenceAnswer:
        """Run with model and inputs cast to a dtype; whether the forward changes its inputs is not looked at."""
        model, copies = copy_of(self.model).to(dtype), cast_inputs(inputs, dtype)
        if numbers_in_fp32:
            keep_numbers_in_fp32(model)
        with pytorch_at("ieee", self.device):
            return self._run_on(model, copies, copies, None, recorder)

    def _run(
        self,
        model: nn.Module,
        inputs: list[Any],
        seed: int | None,
        recorder: AbstractContextManager[Any] | None = None,
    ) -> ReferenceAnswer:
        """Run one forward on copies of model and inputs, and note its side effects."""
        return self._run_on(copy_of(model), inputs, cast_inputs(inputs, None), seed, recorder)

    def _run_on(
        self,
        model: nn.Module,
        inputs: list[Any],
        copies: list[Any],
        seed: int | None,
        recorder: AbstractContextManager[Any] | None,
    ) -> ReferenceAnswer:
        """Run one forward on a model and inputs that it may change; `inputs` tell what the copies were before."""
        give_way()
        before = copy_state(model)
        seed_generators(self.seed if seed is None else seed)
        try:
            with torch.no_grad(), recorder or nullcontext(), Selections() as selections:
                structure, leaves = flatten(model(*copies))
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            raise BadInput(f"reference: forward fails: {one_line(error)}") from error
        after = model.state_dict()
        held = [*_tensors(copies), *model.parameters(), *model.buffers()]
        storages = {x.untyped_storage().data_ptr() for x in held if x.numel()}
        return ReferenceAnswer(
            structure,
            leaves,
            updates={k: v.detach().clone() for k, v in after.items() if k in before and not _equal(before[k], v)},
            changes_inputs=any(not _equal(a, b) for a, b in zip(_tensors(inputs), _tensors(copies), strict=True)),
            selections=[selections.of(x) if isinstance(x, torch.Tensor) else None for x in leaves],
            aliases=any(x.numel() and x.untyped_storage().data_ptr() in storages for x in _tensors(leaves)),
        )


def require_one_answer(runner: ReferenceRunner, precision: Precision, first: list[torch.Tensor]) -> None:
    """Check that the reference gives the same answer again, and under another seed of torch's generator.

    Args:
        runner: runs the reference.
        precision: the task's policy.
        first: leaves of its first answer.

    Raises:
        Unevaluable: if an answer differs, because no other code could then give that answer.
        BadInput: if forward fails.
    """
    for seed, what in ((None, "answers differently when run twice with one seed"), (runner.seed + 1, "is random")):
        for a, b in zip(first, runner.at(precision, seed=seed).leaves, strict=True):
            if a.shape != b.shape or not _is_close(a, b):
                raise Unevaluable(
                    f"the reference {what}{_describe_dropout(runner.model)}: there is no one answer to compare with; "
                    "construct it with dropout probability 0, call .eval() in Model's constructor, or make the noise "
                    "an input",
                    "stochastic_problem",
                )


def _describe_dropout(model: nn.Module) -> str:
    """Names of the dropout modules that are active, in words."""
    active = [
        f"{name or 'Model'} = {module}"
        for name, module in model.named_modules()
        if isinstance(module, nn.modules.dropout._DropoutNd) and module.training and module.p > 0
    ]
    return f" ({', '.join(active)} in train mode)" if active else " (dropout in train mode, or a random draw?)"


def _is_close(a: torch.Tensor, b: torch.Tensor) -> bool:
    if not (a.dtype.is_floating_point or a.dtype.is_complex):
        return bool((a == b).all())
    peak = max((float(x.abs().nan_to_num(0, 0, 0).max()) for (x,) in pieces(a) if x.numel()), default=0.0)
    return all(torch.allclose(x, y, rtol=1e-3, atol=1e-4 * peak, equal_nan=True) for x, y in pieces(a, b))


def _tensors(values: Sequence[Any]) -> list[torch.Tensor]:
    return [x for x in tree_leaves(list(values)) if isinstance(x, torch.Tensor)]


def _equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors hold equal values; NaN counts as equal to NaN."""
    return all(bool(((x == y) | ((x != x) & (y != y))).all()) for x, y in pieces(a, b))


def _alike(leaves: list[torch.Tensor], expected: list[torch.Tensor]) -> list[torch.Tensor]:
    """The leaves that are finite where the expected ones are; the expected ones in the place of the others."""
    pairs = zip(leaves, expected, strict=True)
    return [leaf if torch.equal(torch.isfinite(leaf), torch.isfinite(e)) else e for leaf, e in pairs]


def _widen(leaf: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Cast a leaf to complex128 or float64 if `like` is complex or floating; integers stay."""
    if like.is_complex():
        return leaf.to(torch.complex128)
    return leaf.to(torch.float64) if like.is_floating_point() else leaf

"""The plan of calls: what a candidate is asked on every rung, as data that both ladders carry out.

| group | calls | carried out by |
| --- | --- | --- |
| correctness | every seed of a shape; on a GPU the first module is called several times | both |
| other_inputs | one call per input family | both |
| other_uses | the module used as in service: other sizes, instances, modes, views, changed weights | both |
| tuning | one call per configuration of an autotuned kernel | the interpreter |
| repeats | the same call three times (finalists) | a GPU |
| causality | one call whose Triton kernels do nothing | both |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch.utils._pytree import tree_leaves

from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.expected_leaf import ExpectedLeaf
from egg_graph.evaluator.problem.families import AS_GIVEN
from egg_graph.evaluator.problem.problem import Problem

Section = Literal["correctness", "other_inputs", "other_uses", "causality"]
"""The rung that a call's answer counts for."""
Loading = Literal["module", "weights", "kept"]
"""What precedes a group: a new module, other weights for the module that is loaded, or nothing."""
Placement = Literal["new", "last", "first"]
"""Where the inputs of a call lie: at new addresses, where the last call's lay, or where the group's first lay."""

PATIENCE = 1.5
"""Other uses may be tried this many times longer than input families."""
MOST_CONFIGURATIONS = 48
"""Calls that the configurations of autotuned kernels get."""
REPEATS = 3
"""Calls on the same inputs that a finalist has to answer."""
ANOTHER_SHAPE = "inputs of another shape in the same module"
KEEPS_SIZES = "take every size from the tensors of the call at hand; keep none, and no scratch memory made for one"
SHARES = "keep what belongs to one module in that module (self), not in its class, a global or a default argument"
DEPENDS_ON_MODE = "answer alike in train and eval mode, and whether or not gradients are enabled"
TAKES_FOR_GRANTED = (
    "start from the tensor's own pointer (its storage may begin earlier); keep nothing of an earlier call"
)
REMEMBERS = "compute from all that the tensors hold at the call; keep no answer, and read none that was returned"
KEEPS_WEIGHTS = (
    "read parameters in forward; make what is precomputed from them anew whenever their _version changes, and tell "
    "weights apart by nothing less"
)
ONE = "allow one tensor to come as several arguments"


@dataclass(frozen=True)
class Manner:
    """How a forward is called, beyond which inputs and weights."""

    module: int = 0
    """Number of the instance of `ModelNew` that is called."""
    views: bool = False
    """Inputs are views into larger tensors."""
    scribbled: bool = False
    """The memory of earlier answers is overwritten before, as by callers that own it."""
    in_place: bool = False
    """Weights are copied into the parameters, as optimizers do, and not loaded."""
    evaluating: bool = False
    """`eval()` was called before."""
    gradients: bool = False
    """Gradients are enabled."""
    tied: tuple[int, ...] = ()
    """Positions of inputs that are one tensor."""
    leftovers: bool = False
    """Fresh memory holds any numbers instead of poison, by which an evaluation could be told from service."""


@dataclass(frozen=True)
class Call:
    """One forward to be made, and what it counts for."""

    case: Case
    what: str
    """The call in words, for messages."""
    section: Section = "correctness"
    placement: Placement = "new"
    silent: bool = False
    """The candidate's Triton kernels do nothing."""
    tuning: bool = False
    """Made only while an autotuned kernel has configurations that have not run."""
    cure: str = ""
    """What to tell where this use of the module goes wrong."""
    manner: Manner = Manner()

    @property
    def patience(self) -> float | None:
        """The call is left out after this many times the optional seconds; None if it is never left out."""
        if self.case.family == AS_GIVEN and not self.tuning:
            return None
        return PATIENCE if self.section == "other_uses" else 1.0


@dataclass(frozen=True)
class Group:
    """Calls of one module, made one after the other in one process; the group ends with the first wrong answer.

    Args:
        calls: in order.
        loading: what precedes the first call.
        kind: `single` calls stand alone. The answers of the others are held and looked at again, for they show what a
            module keeps from one call to the next.
    """

    calls: tuple[Call, ...]
    loading: Loading = "module"
    kind: Literal["single", "first", "service", "repeats"] = "single"

    @property
    def several(self) -> bool:
        """Whether the answers of its calls are held and looked at again."""
        return self.kind != "single"


# ------------------------------------------------------------------------------------------------- correctness


def first_group(first: Case, other: Case | None) -> Group:
    """A module's first calls on a GPU: as asked, and (where there are `other` inputs of the same form for the same
    weights) on these in the first ones' place, on the first ones elsewhere, and on the first ones there again."""
    calls = [Call(first, "first call")]
    if other is not None:
        calls += [
            Call(other, "other inputs where the first ones lay", placement="last"),
            Call(first, "the first inputs at other addresses"),
            Call(first, "the first inputs where others lay in between", placement="first"),
        ]
    return Group(tuple(calls), kind="first")


def single_group(case: Case) -> Group:
    """One call of a new module."""
    return Group((Call(case, "first call"),))


def loaded_group(case: Case) -> Group:
    """One call of the module as it is loaded."""
    return Group((Call(case, "first call"),), loading="kept")


def seed_group(number: int, case: Case) -> Group:
    """A further seed of a shape: the second one comes as other weights for the same module, if it has any."""
    call = Call(case, "other inputs at the same addresses, weights loaded anew", placement="last")
    return Group((call,), loading="weights" if number == 1 and case.state else "module")


def repeat_group(case: Case) -> Group:
    """The same call several times, for finalists."""
    calls = [
        Call(case, f"call {number} of {REPEATS} on the same inputs", placement="last" if number > 1 else "new")
        for number in range(1, REPEATS + 1)
    ]
    return Group(tuple(calls), kind="repeats")


# ------------------------------------------------------------------------------------------- other inputs and uses


def family_groups(cases: Sequence[Case]) -> Iterator[Group]:
    """One call per input family; weights are loaded where they differ from the last family's."""
    state = None
    for case in cases:
        call = Call(case, f"{case.family} inputs at the same addresses", "other_inputs", placement="last")
        yield Group((call,), loading="kept" if case.state is state else "module")
        state = case.state


def service_group(problem: Problem, name: str, *, at_one_shape: bool = False) -> Group:
    """The first case of a reduced shape, and the module used as one in service is, perhaps at that shape alone."""
    first = problem.cases(name)[0]
    calls = in_service(problem, name, first, at_one_shape=at_one_shape)
    return Group((Call(first, "first call"), *calls), kind="service")


def in_service(problem: Problem, name: str, first: Case, *, at_one_shape: bool) -> Iterator[Call]:
    """What a module that answered `first` meets beside new inputs, one call after the other. A second instance begins
    where another shape is cheap, and goes on to the first."""
    uses = problem.uses(name)
    resized = None if at_one_shape else uses.resized
    small = resized or uses.changed_weights or first

    def use(case: Case, what: str, cure: str, manner: Manner = Manner(), placement: Placement = "new") -> Call:
        return Call(case, what, "other_uses", placement, cure=cure, manner=manner)

    if resized is not None:
        yield use(small, ANOTHER_SHAPE, KEEPS_SIZES)
    shape = " at another shape" if resized is not None else ""
    yield use(small, f"in a second instance of ModelNew{shape}", SHARES, Manner(module=1))
    mode, manner = ("after eval(), ", Manner(1, evaluating=True)) if uses.same_in_eval else ("", Manner(1))
    enabled = replace(manner, gradients=True)
    yield use(small, f"{mode}where gradients are enabled{shape}", DEPENDS_ON_MODE, enabled)
    what = "the first inputs again, as views into larger tensors, in the second instance, weights loaded anew"
    yield use(first, what, TAKES_FOR_GRANTED, Manner(1, views=True))
    after = Manner(1, scribbled=True)
    for case in uses.changed_inputs:
        what = "an input changed in a few elements where it lay, earlier answers overwritten by their owner"
        yield use(case, what, REMEMBERS, after, "last")
    if uses.changed_weights is not None:
        what = "weights changed in place in a few elements, as an optimizer would"
        yield use(uses.changed_weights, what, KEEPS_WEIGHTS, replace(after, in_place=True), "last")
    if uses.one_tensor is not None:
        yield use(uses.one_tensor, "one tensor for several inputs", ONE, replace(after, tied=uses.tied))


# --------------------------------------------------------------------------------- one process of the interpreter


def interpreter_calls(problem: Problem, name: str, *, everything: bool, at_one_shape: bool = False) -> list[Call]:
    """All calls that one process of the guarded interpreter makes at one shape.

    Args:
        problem: the task under judgement.
        name: name of the shape.
        everything: also other inputs, other uses, tuning configurations, and silent kernels.
        at_one_shape: leave out inputs of another shape in the same module.

    Raises:
        Unevaluable: as `Problem.cases`.
    """
    first, *more = problem.cases(name)
    calls = [Call(first, "the first call")]
    calls += [call for number, case in enumerate(more, 1) for call in seed_group(number, case).calls]
    if everything:
        families = problem.family_cases(name)
        calls += [call for group in family_groups(families) for call in group.calls]
        calls += in_service(problem, name, first, at_one_shape=at_one_shape)
        calls += [Call(first, "under another tuning configuration", tuning=True) for _ in range(MOST_CONFIGURATIONS)]
        changing = _changing([first, *more, *families])
        calls.append(Call(changing, "its Triton kernels doing nothing", "causality", silent=True))
    return [
        replace(call, manner=replace(call.manner, leftovers=in_leftovers(problem, name, index, first=not index)))
        for index, call in enumerate(calls)
    ]


def _changing(cases: Sequence[Case]) -> Case:
    """The first case with an answer that is not among its inputs, as that of a masked update may be; else the first."""
    return next((case for case in cases if not all(_is_given(leaf, case) for leaf in case.leaves)), cases[0])


def _is_given(leaf: ExpectedLeaf, case: Case) -> bool:
    """Whether a leaf of the answer is one of the inputs."""
    given = (x for x in tree_leaves(case.inputs) if isinstance(x, torch.Tensor) and x.shape == leaf.expected.shape)
    return any(torch.equal(x.to(leaf.expected.dtype), leaf.expected) for x in given)


def in_leftovers(problem: Problem, name: str, number: int, *, first: bool) -> bool:
    """Whether a call finds leftovers in fresh memory, as half of the later calls of a module do.

    The first call finds poison, which names what was not written.

    Args:
        problem: the task under judgement; its seeds decide.
        name, number: tell the call from others.
        first: whether it is the module's first.
    """
    return not first and problem.seed(f"{name}/memory", number) % 2 == 1

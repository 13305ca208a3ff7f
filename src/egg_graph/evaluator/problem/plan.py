"""The calls of a module in service, beyond new inputs: what is asked of `problem.uses`, how, and the cures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.families import AS_GIVEN
from egg_graph.evaluator.problem.problem import Problem

PATIENCE = 1.5
"""Of how long families of inputs may be tried, how long other uses may."""
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
    """Which instance of `ModelNew`."""
    views: bool = False
    """Inputs are views into larger tensors."""
    scribbled: bool = False
    """The memory of earlier answers is overwritten before, as by callers that own it."""
    in_place: bool = False
    """Weights are copied into the parameters, as optimizers do, and not loaded."""
    evaluating: bool = False
    """After `eval()`."""
    gradients: bool = False
    """Where gradients are enabled."""
    tied: tuple[int, ...] = ()
    """Places of inputs that are one tensor."""
    leftovers: bool = False
    """Fresh memory holds any numbers, and no poison, by which an examination could be told from service."""


@dataclass(frozen=True)
class Call:
    """One forward to be made."""

    case: Case
    what: str
    """In words, for messages."""
    reuse: bool = False
    """The inputs' content lies where the last call's did."""
    silent: bool = False
    """Triton kernels do nothing."""
    tuning: bool = False
    """Made only where an autotuned kernel has configurations that have not run."""
    use: str = ""
    """Of a call that uses the module otherwise: the cure where it is wrong then."""
    manner: Manner = Manner()

    @property
    def patience(self) -> float | None:
        """See `jobs.interpret`."""
        if self.case.family == AS_GIVEN and not self.tuning:
            return None
        return PATIENCE if self.use else 1.0


def in_service(problem: Problem, name: str, first: Case) -> Iterator[Call]:
    """What a module that answered `first` meets beside new inputs, one call after the other. A second instance begins
    where another shape is cheap, and goes on to the first."""
    uses = problem.uses(name)
    small = uses.resized or uses.weights or first
    if uses.resized is not None:
        yield Call(small, "inputs of another shape in the same module", use=KEEPS_SIZES)
    shape = " at another shape" if uses.resized is not None else ""
    yield Call(small, f"in a second instance of ModelNew{shape}", use=SHARES, manner=Manner(module=1))
    mode, manner = ("after eval(), ", Manner(1, evaluating=True)) if uses.modeless else ("", Manner(1))
    enabled = replace(manner, gradients=True)
    yield Call(small, f"{mode}where gradients are enabled{shape}", use=DEPENDS_ON_MODE, manner=enabled)
    what = "the first inputs again, as views into larger tensors, in the second instance, weights loaded anew"
    yield Call(first, what, use=TAKES_FOR_GRANTED, manner=Manner(1, views=True))
    after = Manner(1, scribbled=True)
    for case in uses.few:
        what = "an input changed in a few elements where it lay, earlier answers overwritten by their owner"
        yield Call(case, what, reuse=True, use=REMEMBERS, manner=after)
    if uses.weights is not None:
        what = "weights changed in place in a few elements, as an optimizer would"
        yield Call(uses.weights, what, reuse=True, use=KEEPS_WEIGHTS, manner=replace(after, in_place=True))
    if uses.one_tensor is not None:
        yield Call(uses.one_tensor, "one tensor for several inputs", use=ONE, manner=replace(after, tied=uses.tied))

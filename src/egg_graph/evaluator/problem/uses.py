"""What a module in service meets beside new inputs: the questions that show what it keeps from one call to the next.

One element of an input or of a weight changes, other sizes come to the same module, one tensor comes for two inputs,
and `eval()` is called. Where the reference itself has no steady answer under such use, or its answer does not move,
the question is left out, and the reason kept.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from egg_graph.evaluator.problem.budgets import Unevaluable
from egg_graph.evaluator.problem.case import Case, variant
from egg_graph.evaluator.problem.case_store import Cases
from egg_graph.evaluator.problem.comparison import judge_leaves, same_bytes
from egg_graph.evaluator.problem.families import structure
from egg_graph.evaluator.problem.leaf_comparison import Leaf
from egg_graph.evaluator.problem.reference import shape_knobs
from egg_graph.schema import BadInput

FEW_ELEMENTS = "changed in a few elements"
FEW_WEIGHTS = "as given, weights changed in a few elements"
ONE_TENSOR = "one tensor for several"
STEPS = ((1, 1.0), (1, 4.0), (2, 4.0), (8, 4.0), (64, 4.0))
"""How many elements change, and how far: as little as moves the answer. Whoever remembers by a sample sees none of
it."""
MOST_INPUTS, MOST_WEIGHTS = 2, 6
"""Inputs that change one after the other, and parameters that change at once."""
SHRINKING = (4, 2)
"""What sizes are divided by for another shape of the same module."""
ROOM = 4.0
"""How much further from exact PyTorch itself may be where two inputs are one (differences of equals are all noise)."""


@dataclass
class Uses:
    """Cases of one shape for one module's further use."""

    few: list[Case] = field(default_factory=list)
    """Like the shape's first case, with one input after another changed in a few elements; each keeps what changed."""
    weights: Case | None = None
    """The last of `few` (or the first case), with every parameter changed in a few elements."""
    resized: Case | None = None
    """Smaller inputs for the same constructor arguments."""
    one_tensor: Case | None = None
    """One tensor for every input of its form."""
    tied: tuple[int, ...] = ()
    """Places of those inputs."""
    modeless: bool = False
    """After `eval()` the reference answers as before."""
    left_out: dict[str, str] = field(default_factory=dict)
    """What is not asked, and why."""

    @property
    def cases(self) -> list[Case]:
        """All of them."""
        return [*self.few, *(case for case in (self.weights, self.resized, self.one_tensor) if case is not None)]


def uses_of(problem: Cases, name: str) -> Uses:
    """Further questions about one reduced shape.

    Raises:
        Unevaluable: as `Problem.cases`.
    """
    first, uses = problem.cases(name)[0], Uses()
    _few(problem, name, first, uses)
    _weights(problem, name, first, uses)
    uses.resized = _resized(problem, name, first, uses)
    _one_tensor(problem, name, first, uses)
    uses.modeless = _modeless(problem, first)
    if not uses.modeless:
        uses.left_out["eval mode"] = "the reference's answer depends on the mode, and it is judged as constructed"
    return uses


# ------------------------------------------------------------------------------------------------- a few elements


def _few(problem: Cases, name: str, first: Case, uses: Uses) -> None:
    """One input after another, each on top of what changed before."""
    if first.changes_inputs:
        uses.left_out["inputs changed in a few elements"] = "the reference writes to its inputs"
        return
    generator = torch.Generator().manual_seed(problem.seed(f"{name}/few", 0))
    free = [i for i, x in enumerate(first.inputs) if isinstance(x, torch.Tensor) and _is_free(x)]
    order = [free[int(i)] for i in torch.randperm(len(free), generator=generator)]
    for place in order[:MOST_INPUTS]:
        base = uses.few[-1] if uses.few else first
        for count, scale in STEPS:
            inputs = list(base.inputs)
            inputs[place] = _moved(base.inputs[place], count, scale, generator)
            case = _case_of(problem, base, inputs=inputs, family=FEW_ELEMENTS)
            if case is not None and _differs(problem, case, base):
                uses.few.append(case)
                break
    if not uses.few:
        uses.left_out["inputs changed in a few elements"] = "the reference's answer hardly moves with them"


def _weights(problem: Cases, name: str, first: Case, uses: Uses) -> None:
    """One parameter after another, each on top of what changed before, so that each moves the answer."""
    if not first.state:
        return
    generator = torch.Generator().manual_seed(problem.seed(f"{name}/few weights", 0))
    base = uses.few[-1] if uses.few else first
    sizes = {key: x.numel() for key, x in first.model.named_parameters() if x.is_floating_point() and x.numel()}
    for key in sorted(sizes, key=lambda key: -sizes[key])[:MOST_WEIGHTS]:
        for count, scale in STEPS:
            model = copy.deepcopy(base.model)
            parameter = model.get_parameter(key)
            with torch.no_grad():
                parameter.copy_(_moved(parameter, count, scale, generator))
            case = _case_of(problem, base, model=model, family=FEW_WEIGHTS)
            if case is not None and _differs(problem, case, base):
                base = uses.weights = case
                break
    if uses.weights is None:
        uses.left_out["weights changed in place"] = "the reference's answer hardly moves with a few elements of them"


def _moved(x: torch.Tensor, count: int, scale: float, generator: torch.Generator) -> torch.Tensor:
    """A copy in which a few elements hold what others held, times a factor (integers: that itself)."""
    flat = x.detach().clone(memory_format=torch.contiguous_format).reshape(-1)
    places = torch.randint(flat.numel(), (2, count), generator=generator).to(flat.device)
    taken = flat[places[1]]
    flat[places[0]] = taken * scale if x.is_floating_point() else taken
    return torch.empty_like(x).copy_(flat.reshape(x.shape))


def _is_free(x: torch.Tensor) -> bool:
    """Whether elements mean nothing to each other, so that one may change alone."""
    return structure(x) in ("free", "counts", "whole") and x.numel() > 0


# ------------------------------------------------------------------------------------------------ other arguments


def _resized(problem: Cases, name: str, first: Case, uses: Uses) -> Case | None:
    """Smaller inputs for the same constructor arguments."""
    overrides = {**shape_knobs(problem.task.reference), **problem.shapes[name]}
    free = [knob for knob in overrides if _reaches_inputs_alone(problem, overrides, knob)]
    for knobs in (free, *([knob] for knob in free)) if len(free) > 1 else (free,):
        for divisor in SHRINKING:
            smaller = {knob: max(2, overrides[knob] // divisor) for knob in knobs if overrides[knob] > 2}
            case = _built(problem, f"{name}/resized", {**overrides, **smaller}) if smaller else None
            if case is not None and _is_smaller(case, first) and _same_weights(case, first):
                return case
    uses.left_out["another shape"] = "no other shape of the inputs runs with the same constructor arguments"
    return None


def _reaches_inputs_alone(problem: Cases, overrides: dict[str, int], knob: str) -> bool:
    """Whether a size may change without another module being constructed."""
    try:
        return problem.arguments({**overrides, knob: overrides[knob] + 1}) == problem.arguments(overrides)
    except BadInput:
        return False


def _is_smaller(case: Case, first: Case) -> bool:
    """Whether some inputs are, and none is of one element where it was of several: that is another question, for
    PyTorch repeats it along the others."""
    pairs = list(zip(case.input_shapes.values(), first.input_shapes.values(), strict=True))
    collapsed = any(now == 1 < then for a, b in pairs for now, then in zip(a, b, strict=False))
    return any(a != b for a, b in pairs) and not collapsed


def _built(problem: Cases, name: str, overrides: dict[str, int]) -> Case | None:
    try:
        return problem.build(name, overrides, 0)
    except (Unevaluable, BadInput):
        return None


def _same_weights(a: Case, b: Case) -> bool:
    def forms(case: Case) -> list[Any]:
        return [(name, x.shape, x.dtype) for name, x in case.state.items()]

    return forms(a) == forms(b)


def _one_tensor(problem: Cases, name: str, first: Case, uses: Uses) -> None:
    """The first tensor for all of its form, where PyTorch's answer to that can be judged."""
    what = "one tensor for several inputs"
    tied = next(iter(_alike(first)), ())
    if not tied:
        return
    if first.changes_inputs or first.aliases:
        uses.left_out[what] = "the reference writes to its inputs, or answers with their memory"
        return
    inputs = list(first.inputs)
    for place in tied[1:]:
        inputs[place] = inputs[tied[0]]
    case = _case_of(problem, first, inputs=inputs, family=ONE_TENSOR)
    if case is None or any(_is_noise(mine, its) for mine, its in zip(case.leaves, first.leaves, strict=True)):
        uses.left_out[what] = "PyTorch's own answer to that is none, or rounding alone"
        return
    uses.one_tensor, uses.tied = case, tied


def _alike(case: Case) -> Iterator[tuple[int, ...]]:
    """Places of inputs of one form, any values of which make sense."""
    forms: dict[Any, list[int]] = {}
    for place, x in enumerate(case.inputs):
        if isinstance(x, torch.Tensor) and structure(x) == "free":
            forms.setdefault((x.shape, x.dtype, x.stride()), []).append(place)
    yield from (tuple(places) for places in forms.values() if len(places) > 1)


def _is_noise(mine: Leaf, usual: Leaf) -> bool:
    return mine.budget > ROOM * usual.budget or not bool(mine.expected.count_nonzero())


def _modeless(problem: Cases, case: Case) -> bool:
    """Whether the reference answers alike after `eval()`."""
    after = None if case.updates else _case_of(problem, case, model=copy.deepcopy(case.model).eval())
    return after is not None and all(
        a.pytorch is not None and b.pytorch is not None and same_bytes(a.pytorch, b.pytorch)
        for a, b in zip(case.leaves, after.leaves, strict=True)
    )


# -------------------------------------------------------------------------------------------------------- answers


def _case_of(problem: Cases, base: Case, **changes: Any) -> Case | None:
    """A case like another, or None where it cannot be judged, or is NaN where the other is not."""
    try:
        case = variant(base, problem.reference, problem.task.precision, **changes)
    except (Unevaluable, BadInput):
        return None
    spoilt = any(bool(torch.isnan(leaf.expected).any()) for leaf in case.leaves)
    return None if spoilt and not any(bool(torch.isnan(leaf.expected).any()) for leaf in base.leaves) else case


def _differs(problem: Cases, case: Case, base: Case) -> bool:
    """Whether the answer to one case would be refused as the answer to the other."""
    answer = [leaf.pytorch for leaf in base.leaves]
    return bool(judge_leaves(problem.task, case, answer, machine="PyTorch", source="")[0])

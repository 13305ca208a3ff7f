"""Choose cases that show what a module keeps from one call to the next, as a module in service may not.

Between calls, a few elements of an input or a weight change, inputs of another size arrive, one tensor is passed for
several inputs, and `eval()` is called. A use is left out, with the reason, if the reference itself has no steady answer
under it or its answer does not change.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from egg_graph.evaluator.problem.case import Case, Unevaluable
from egg_graph.evaluator.problem.case_builder import build_like
from egg_graph.evaluator.problem.case_store import ALIGNED, CaseStore
from egg_graph.evaluator.problem.comparison import judge_leaves, same_bytes
from egg_graph.evaluator.problem.expected_leaf import ExpectedLeaf
from egg_graph.evaluator.problem.families import structure
from egg_graph.evaluator.problem.forward_form import forward_form
from egg_graph.evaluator.problem.knobs import shape_knobs
from egg_graph.evaluator.problem.model_copy import copy_of
from egg_graph.evaluator.problem.orders import is_ordered, move_within_order, sorted_like
from egg_graph.evaluator.problem.reference import load_reference
from egg_graph.evaluator.problem.shape_trials import MAX_ELEMENTS, ShapeTrials
from egg_graph.evaluator.problem.shapes import SMALL
from egg_graph.evaluator.problem.tie_search import tied_positions
from egg_graph.schema import BadInput

FEW_ELEMENTS = "changed in a few elements"
FEW_WEIGHTS = "as given, weights changed in a few elements"
ONE_TENSOR = "one tensor for several"
"""Names of the distributions of the inputs, in evidence."""
STEPS = ((1, 1.0), (1, 4.0), (2, 4.0), (8, 4.0), (64, 4.0))
"""Number of elements that change, and the factor: the first step that moves the answer is taken, so that a candidate
that recognizes inputs by a sample does not notice."""
MOST_INPUTS = 2
"""Number of inputs that change, one after the other."""
MOST_WEIGHTS = 6
"""Number of parameters that change together."""
DIVISORS = (4, 2)
"""What sizes are divided by to get another shape for the same module."""
MOST_BUDGET_GROWTH = 4.0
"""Leave out one tensor for several inputs if a budget grows by more than this factor: differences of equal tensors are
rounding alone."""
ALIKE = 2.0
"""Pass one tensor for two inputs if their root mean squares differ by no more than this factor."""
MOST_TRIED, MOST_TRIED_FLOPS = 64 * MAX_ELEMENTS, 2e10
"""Elements of any one tensor, and flops, up to which a shape is tried on the CPU before the GPU: about a second."""


@dataclass
class Uses:
    """Cases of one shape for further uses of one module."""

    changed_inputs: list[Case] = field(default_factory=list)
    """The shape's first case with one input after another changed in a few elements; changes accumulate."""
    changed_weights: Case | None = None
    """The last of `changed_inputs` (or the first case) with parameters changed in a few elements."""
    resized: Case | None = None
    """Smaller inputs for the same constructor arguments."""
    one_tensor: Case | None = None
    """One tensor for all inputs of its form."""
    tied: tuple[int, ...] = ()
    """Positions of those inputs."""
    same_in_eval: bool = False
    """The reference answers the same after `eval()`."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Uses that are left out, in words, and why."""

    @property
    def cases(self) -> list[Case]:
        """All cases."""
        rest = (self.changed_weights, self.resized, self.one_tensor)
        return [*self.changed_inputs, *(case for case in rest if case is not None)]


def choose_uses(problem: CaseStore, name: str) -> Uses:
    """Choose the further uses of a module at one reduced shape.

    Args:
        problem: the task's cases.
        name: name of the shape.

    Raises:
        Unevaluable: as `CaseStore.cases`.
    """
    first, uses = problem.cases(name)[0], Uses()
    _change_inputs(problem, name, first, uses)
    _change_weights(problem, name, first, uses)
    if name.startswith(ALIGNED):
        uses.left_out["inputs of another shape in the same module"] = "it refuses shapes that are not aligned"
    else:
        uses.resized = _resize(problem, name, first, uses)
    _tie_inputs(problem, first, uses)
    uses.same_in_eval = _answers_same_in_eval(problem, first)
    if not uses.same_in_eval:
        uses.left_out["eval mode"] = "the reference's answer depends on the mode, and it is judged as constructed"
    return uses


def _change_inputs(problem: CaseStore, name: str, first: Case, uses: Uses) -> None:
    """Change a few elements of one input after another; changes accumulate."""
    if first.changes_inputs:
        uses.left_out["inputs changed in a few elements"] = "the reference writes to its inputs"
        return
    generator = torch.Generator().manual_seed(problem.seed(f"{name}/few", 0))
    tied = tied_positions(first, load_reference(problem.task.reference, first.overrides))
    free = [
        i for i, x in enumerate(first.inputs) if i not in tied and isinstance(x, torch.Tensor) and _has_free_elements(x)
    ]
    order = [free[int(i)] for i in torch.randperm(len(free), generator=generator)]
    for position in order[:MOST_INPUTS]:
        base = uses.changed_inputs[-1] if uses.changed_inputs else first
        for count, scale in STEPS:
            inputs = list(base.inputs)
            inputs[position] = _change_elements(base.inputs[position], count, scale, generator)
            case = _build_judgeable(problem, base, inputs=inputs, family=FEW_ELEMENTS)
            if case is not None and _answer_differs(problem, case, base):
                uses.changed_inputs.append(case)
                break
    if not uses.changed_inputs:
        uses.left_out["inputs changed in a few elements"] = "the reference's answer hardly moves with them"


def _change_weights(problem: CaseStore, name: str, first: Case, uses: Uses) -> None:
    """Change a few elements of one parameter after another; changes accumulate, and each moves the answer."""
    if not first.state:
        return
    generator = torch.Generator().manual_seed(problem.seed(f"{name}/few weights", 0))
    base = uses.changed_inputs[-1] if uses.changed_inputs else first
    sizes = {key: x.numel() for key, x in first.model.named_parameters() if x.is_floating_point() and x.numel()}
    for key in sorted(sizes, key=lambda key: -sizes[key])[:MOST_WEIGHTS]:
        for count, scale in STEPS:
            model = copy_of(base.model)
            parameter = model.get_parameter(key)
            with torch.no_grad():
                parameter.copy_(_change_elements(parameter, count, scale, generator))
            case = _build_judgeable(problem, base, model=model, family=FEW_WEIGHTS)
            if case is not None and _answer_differs(problem, case, base):
                base = uses.changed_weights = case
                break
    if uses.changed_weights is None:
        uses.left_out["weights changed in place"] = "the reference's answer hardly moves with a few elements of them"


def _change_elements(x: torch.Tensor, count: int, scale: float, generator: torch.Generator) -> torch.Tensor:
    """Copy a tensor and overwrite a few elements with other elements, times a factor if they are floating.

    Numbers in order stay in order. Integers that are all different, or are so in every row, change places there: they
    may be a permutation, or what was chosen without putting back. Negative ones among them stay: they fill up a row.
    """
    if is_ordered(x) and not x.is_floating_point():
        places = torch.randint(x.numel(), (count,), generator=generator)
        return torch.empty_like(x).copy_(move_within_order(x, places.tolist(), generator))
    flat = x.detach().clone(memory_format=torch.contiguous_format).reshape(-1)
    positions = torch.randint(flat.numel(), (2, count), generator=generator).to(flat.device)
    if x.is_floating_point():
        flat[positions[0]] = flat[positions[1]] * scale
    elif width := _width_of_distinct(x):
        for here, there in positions.T.tolist():
            there = here // width * width + there % width
            if flat[[here, there]].min() >= 0:
                flat[[here, there]] = flat[[there, here]]
    else:
        flat[positions[0]] = flat[positions[1]]
    return sorted_like(flat.reshape(x.shape), x)


def _width_of_distinct(x: torch.Tensor) -> int:
    """How many elements in a row are all different, but for negative ones: all, those of a row, or none (0)."""
    if not bool((x >= 0).any()):
        return 0
    if _is_distinct(x.reshape(-1)):
        return x.numel()
    return x.shape[-1] if x.shape[-1] > 1 and _is_distinct(x) else 0


def _is_distinct(rows: torch.Tensor) -> bool:
    """Whether no row [..., N] holds a number twice that is not negative."""
    ordered = rows.sort(dim=-1).values
    return not bool(((ordered.diff(dim=-1) == 0) & (ordered[..., 1:] >= 0)).any())


def _has_free_elements(x: torch.Tensor) -> bool:
    """Whether one element may change alone, since elements have no visible relation to each other."""
    return structure(x) in ("free", "counts", "whole") and x.numel() > 0


def _resize(problem: CaseStore, name: str, first: Case, uses: Uses) -> Case | None:
    """Build a case with smaller inputs for the same constructor arguments, and for the steps of the reference's own
    shape where this one has them. What is odd at full shape stays odd, as the width of a blur's window."""
    source = problem.task.reference
    own, here = forward_form(source, {}), forward_form(source, problem.overrides(name))
    kept = own if here == own else None
    overrides = problem.sizes(name)
    full = shape_knobs(source)
    free = _free_sizes(problem, overrides, full)
    for knobs in (free, *([knob] for knob in free)) if len(free) > 1 else (free,):
        for divisor in DIVISORS:
            smaller = {
                knob: max(2, overrides[knob] // divisor) | full[knob] % 2 for knob in knobs if overrides[knob] > 2
            }
            if not smaller or not _constructs_alike(problem, overrides, smaller):
                continue
            if kept is not None and forward_form(source, {**overrides, **smaller}, kept) is None:
                continue
            case = _try_build(problem, f"{name}/resized", {**overrides, **smaller})
            if case is not None and _is_smaller(case, first) and _has_same_weights(case, first):
                return case
    uses.left_out["another shape"] = "no other shape of the inputs runs with the same constructor arguments and steps"
    return None


def _free_sizes(problem: CaseStore, overrides: dict[str, int], full: dict[str, int]) -> list[str]:
    """The knobs that the constructor does not see; small numbers (of axes, say) only if there are no others."""
    free = [knob for knob in overrides if _affects_inputs_only(problem, overrides, knob)]
    return [knob for knob in free if full[knob] > SMALL] or free


def _affects_inputs_only(problem: CaseStore, overrides: dict[str, int], knob: str) -> bool:
    """Whether the constructor's arguments seem not to hang on an integer of the reference: another one may show it."""
    return _constructs_alike(problem, overrides, {knob: overrides[knob] + 1})


def _constructs_alike(problem: CaseStore, overrides: dict[str, int], changed: dict[str, int]) -> bool:
    """Whether the constructor's arguments stay the same when these integers of the reference change."""
    try:
        return problem.arguments({**overrides, **changed}) == problem.arguments(overrides)
    except BadInput:
        return False


def _is_smaller(case: Case, first: Case) -> bool:
    """Whether some inputs are smaller and no dimension shrank to one element, along which PyTorch would broadcast."""
    pairs = list(zip(case.input_shapes.values(), first.input_shapes.values(), strict=True))
    collapsed = any(now == 1 < then for a, b in pairs for now, then in zip(a, b, strict=False))
    return any(a != b for a, b in pairs) and not collapsed


def _try_build(problem: CaseStore, name: str, overrides: dict[str, int]) -> Case | None:
    """Build a case; on a GPU only where the reference runs on the CPU: an index out of range would end its context."""
    if problem.device.type != "cpu" and not _runs_on_the_cpu(problem.task.reference, overrides):
        return None
    try:
        return problem.build(name, overrides, 0)
    except (Unevaluable, BadInput):
        return None


def _runs_on_the_cpu(source: str, overrides: dict[str, int]) -> bool:
    """Whether the reference runs on real tensors of a shape; False for one at which that takes too long."""
    trials = ShapeTrials(source, math.inf, answer_must_move=False)
    size = trials.size(overrides)
    cheap = size is not None and size.largest <= MOST_TRIED and size.flops <= MOST_TRIED_FLOPS
    return cheap and trials.runs(overrides)


def _has_same_weights(a: Case, b: Case) -> bool:
    """Whether the weights of two cases have the same names, shapes and dtypes."""

    def forms(case: Case) -> list[Any]:
        return [(name, x.shape, x.dtype) for name, x in case.state.items()]

    return forms(a) == forms(b)


def _tie_inputs(problem: CaseStore, first: Case, uses: Uses) -> None:
    """Pass the first tensor for all inputs of its form, if PyTorch's answer to that can be judged."""
    what = "one tensor for several inputs"
    tied = next(iter(_inputs_of_one_form(first)), ())
    if not tied:
        return
    if first.changes_inputs or first.aliases:
        uses.left_out[what] = "the reference writes to its inputs, or answers with their memory"
        return
    inputs = list(first.inputs)
    for position in tied[1:]:
        inputs[position] = inputs[tied[0]]
    case = _build_judgeable(problem, first, inputs=inputs, family=ONE_TENSOR)
    if case is None or any(_is_noise(leaf, usual) for leaf, usual in zip(case.leaves, first.leaves, strict=True)):
        uses.left_out[what] = "PyTorch's own answer to that is none, or rounding alone"
        return
    uses.one_tensor, uses.tied = case, tied


def _inputs_of_one_form(case: Case) -> Iterator[tuple[int, ...]]:
    """Groups of positions of inputs that have one form, and whose values are free and of the same signs and size: a
    decay below zero, or a key of length one, is no query."""
    groups: dict[Any, list[int]] = {}
    sizes: dict[Any, float] = {}
    for position, x in enumerate(case.inputs):
        if not isinstance(x, torch.Tensor) or structure(x) != "free":
            continue
        form = (x.shape, x.dtype, x.stride(), bool((x < 0).any()), bool((x > 0).any()))
        size = float(x.double().square().mean().sqrt())
        if size / ALIKE <= sizes.setdefault(form, size) <= size * ALIKE:
            groups.setdefault(form, []).append(position)
    yield from (tuple(positions) for positions in groups.values() if len(positions) > 1)


def _is_noise(leaf: ExpectedLeaf, usual: ExpectedLeaf) -> bool:
    """Whether a leaf is zero or far less exact than usual."""
    return leaf.budget > MOST_BUDGET_GROWTH * usual.budget or not bool(leaf.expected.count_nonzero())


def _answers_same_in_eval(problem: CaseStore, case: Case) -> bool:
    """Whether the reference gives the same bits after `eval()`."""
    after = None if case.updates else _build_judgeable(problem, case, model=copy_of(case.model).eval())
    return after is not None and all(
        a.pytorch is not None and b.pytorch is not None and same_bytes(a.pytorch, b.pytorch)
        for a, b in zip(case.leaves, after.leaves, strict=True)
    )


def _build_judgeable(problem: CaseStore, base: Case, **changes: Any) -> Case | None:
    """Build a case like another; None if it cannot be judged, or holds NaN where the other holds none."""
    try:
        case = build_like(base, problem.reference, problem.task.precision, **changes)
    except (Unevaluable, BadInput):
        return None
    return None if case.holds_nan and not base.holds_nan else case


def _answer_differs(problem: CaseStore, case: Case, base: Case) -> bool:
    """Whether PyTorch's answer to one case would be refused as the answer to the other."""
    answer = [leaf.pytorch for leaf in base.leaves]
    return bool(judge_leaves(problem.task, case, answer, machine="PyTorch", source="")[0])

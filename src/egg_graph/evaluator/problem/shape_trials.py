"""Try a reference with other integers in it: whether it runs, how much it holds and computes, whether its answer moves.

Trials run under fake tensors, which cost no memory, and on real tensors to confirm a choice. A shape at which the
reference has other layers than its own is none: a kernel written for the task's module need not fit another one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from egg_graph.evaluator.problem.reference import Reference, load_reference, one_line, where_in
from egg_graph.schema import BadInput

if TYPE_CHECKING:
    import torch

    from egg_graph.evaluator.problem.forward_form import Form

MAX_ELEMENTS = 130_000
"""Largest number of elements of any one tensor that an interpreter can process; twice that for inputs, parameters and
outputs together."""
MAX_FLOPS = 5e7
"""Largest number of flops of matrix products that an interpreter can process."""
MAX_STEPS = 1600
"""Largest number of steps of one forward, which a kernel takes one after the other: calls from Python, and operators of
every step of a recurrence."""
STILL = 1e-5
"""The answer does not move if the relative difference of two answers is at most this."""
NOISE = 30.0
"""A difference of less than this many times the error of fp32 is rounding."""
SURE = (1e-5, 1e-3, math.inf)
"""Largest relative errors of fp32 against fp64 at a shape, the most wanted first. (A batch norm of two values turns
rounding into signs; TF32's error is thousands of times as large, and then no answer is told from another one.)"""

Overrides = tuple[tuple[str, int], ...]
"""Overrides as sorted pairs, for use as a key."""


@dataclass(frozen=True)
class ForwardSize:
    """What one forward of the reference holds and computes."""

    elements: int
    """Elements of inputs, parameters and outputs together."""
    largest: int
    """Elements of the largest tensor that an operator returned."""
    flops: float
    """Flops of matrix products, as far as they can be counted."""
    steps: int = 0
    """Number of calls from Python, and of operators in recurrences."""
    form: Form | None = None
    """Layers and steps; None if they are not known."""

    @property
    def is_small(self) -> bool:
        """Whether an interpreter can process it."""
        fits = self.elements <= 2 * MAX_ELEMENTS and self.largest <= MAX_ELEMENTS
        return fits and self.flops <= MAX_FLOPS and self.steps <= MAX_STEPS


@dataclass(frozen=True)
class TrialAnswer:
    """What the reference answered on real tensors."""

    moves: bool
    """Whether other inputs get another answer, and none is zero everywhere or holds inputs alone."""
    error: float
    """Largest relative error of fp32 against fp64 of any floating tensor of the answer; 0 if fp64 does not run, and
    infinite if a tensor holds NaN."""


@dataclass
class ShapeTrials:
    """Trials of one reference, each made once.

    Args:
        source: the reference's source.
        seconds: time limit of all trials under fake tensors, in seconds of this thread's work: on a busy machine a
            search finds what it finds on an idle one.
    """

    source: str
    seconds: float
    steps_must_stay: bool = True
    """Whether a shape must keep the steps of the forward, too; its layers it always keeps."""
    answer_must_move: bool = True
    """Whether `runs` also asks that other inputs get another answer. (One channel in a normalized group does not.)"""
    most_error: float = math.inf
    """Largest relative error of fp32 against fp64 with which a shape still `runs`."""
    last_failure: str = ""
    """Why the last failed trial failed, on one line."""
    sizes: dict[Overrides, ForwardSize | None] = field(default_factory=dict)
    """Sizes by overrides; None if the reference failed."""
    too_large: set[Overrides] = field(default_factory=set)
    """Overrides whose parameters alone are more than an interpreter can process; their forward was not run."""
    answers: dict[Overrides, TrialAnswer | None] = field(default_factory=dict)
    """What was answered, by overrides that were run on real tensors; None if the reference failed."""

    def __post_init__(self) -> None:
        self.deadline = time.thread_time() + self.seconds

    def size(self, overrides: Mapping[str, int]) -> ForwardSize | None:
        """Size of the forward with these integers; None if the reference fails, is another one then, or time is up."""
        key = tuple(sorted(overrides.items()))
        if key not in self.sizes:
            self._measure(key, math.inf)
        return self._measured(key)

    def is_small(self, overrides: Mapping[str, int]) -> bool:
        """Whether an interpreter can process the reference with these integers.

        The forward of a module whose parameters alone are too large is not run, which spares half of the time.
        """
        key = tuple(sorted(overrides.items()))
        if key not in self.sizes and key not in self.too_large:
            self._measure(key, 2 * MAX_ELEMENTS)
        size = self._measured(key)
        return size is not None and size.is_small

    def _measured(self, key: Overrides) -> ForwardSize | None:
        """What was measured, if the reference has the form there that it has at its own shape."""
        size, own = self.sizes.get(key), self.sizes.get(())
        if size is None or size.form is None or own is None or own.form is None:
            return size
        same = size.form == own.form if self.steps_must_stay else size.form.members == own.form.members
        return size if same else None

    def _measure(self, key: Overrides, most: float) -> None:
        """Measure one forward if there is time; that of a module with more than `most` elements is not run."""
        if self.sizes and time.thread_time() > self.deadline:
            return
        reference = None
        try:
            reference = load_reference(self.source, dict(key))
            self.sizes[key] = _measure(reference, most)
        except _TooLarge:
            self.too_large.add(key)
        except Exception as error:  # noqa: BLE001 - any failure at all is this trial's answer
            self.last_failure = _words(error, reference)
            self.sizes[key] = None

    def runs(self, overrides: Mapping[str, int]) -> bool:
        """Whether the reference runs on real tensors too, which show an index out of range where fake ones do not.

        Also whether other inputs get another answer, if `answer_must_move`, and fp32 errs by at most `most_error`.
        """
        key = tuple(sorted(overrides.items()))
        if key not in self.answers:
            reference = None
            try:
                reference = load_reference(self.source, overrides)
                self.answers[key] = _try_answers(reference)
            except Exception as error:  # noqa: BLE001 - any failure at all is this trial's answer
                self.last_failure = _words(error, reference)
                self.answers[key] = None
        answer = self.answers[key]
        if answer is None:
            return False
        return (answer.moves or not self.answer_must_move) and not answer.error > self.most_error


def input_shapes(reference: Reference) -> list[tuple[int, ...]]:
    """Shapes of the tensors among the inputs.

    Raises:
        BadInput: if `get_inputs()` fails under fake tensors.
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True):
        return [tuple(x.shape) for x in reference.inputs(0) if isinstance(x, torch.Tensor)]


def output_shapes(reference: Reference) -> list[tuple[int, ...]]:
    """Shapes of the answer's tensors; empty if the reference fails under fake tensors."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils._pytree import tree_leaves

    from egg_graph.evaluator.problem.batch_norms import WholeBatchNorms
    from egg_graph.evaluator.problem.recurrences import WholeRecurrences

    try:
        with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad(), WholeRecurrences(), WholeBatchNorms():
            outputs = reference.model(0)(*reference.inputs(0))
    except Exception:  # noqa: BLE001 - it does not run under fake tensors, so nothing is known
        return []
    return [tuple(x.shape) for x in tree_leaves(outputs) if isinstance(x, torch.Tensor)]


def _words(error: Exception, reference: Reference | None) -> str:
    """A failure on one line, behind the line of the reference that it came from."""
    line = "" if reference is None else where_in(error, *reference.paths).removeprefix(", ")
    return f"{line}: {one_line(error)}" if line else one_line(error)


def _try_answers(reference: Reference) -> TrialAnswer:
    """Answer two draws of the inputs in fp32 and one in fp64.

    The answer moves if they differ by more than `STILL` and by more than rounding, and neither is zero everywhere, as
    that of a sparse product may be, of which few blocks are left, or the inputs themselves, as a cache is to which
    nothing is written.
    """
    import torch

    one, other = (_answer(reference, seed, torch.float32) for seed in (0, 1))
    try:
        exact = _answer(reference, 0, torch.float64)
    except RuntimeError:  # a dtype is written into the reference
        exact = one
    moves, error = False, 0.0
    for a, b, c in zip(one, other, exact, strict=True):
        x, wide = _finite(a), _finite(c)
        norm, rounding = float(x.norm()), float((x - wide).norm())
        moves = moves or a.shape != b.shape
        moves = moves or float((x - _finite(b)).norm()) > max(STILL * norm, NOISE * rounding, 0.0)
        if norm > 0.0 and (a.is_floating_point() or a.is_complex()):
            error = max(error, rounding / norm)
        if bool(a.isnan().any()):
            error = math.inf
    return TrialAnswer(moves and not (_is_zero(one) or _is_zero(other) or _is_given(one, reference.inputs(0))), error)


def _is_given(answer: list[torch.Tensor], inputs: list[Any]) -> bool:
    """Whether each tensor of an answer is one of the inputs."""
    import torch

    given = [x for x in inputs if isinstance(x, torch.Tensor)]
    return all(any(a.dtype == x.dtype and torch.equal(a, x) for x in given) for a in answer)


def _is_zero(answer: list[torch.Tensor]) -> bool:
    return not any(bool(x.count_nonzero()) for x in answer)


def _answer(reference: Reference, seed: int, dtype: torch.dtype) -> list[torch.Tensor]:
    """Tensors of the answer, computed in `dtype`."""
    import torch
    from torch.utils._pytree import tree_leaves, tree_map

    def cast(x: Any) -> Any:
        return x.to(dtype) if isinstance(x, torch.Tensor) and x.is_floating_point() else x

    with torch.no_grad():
        model = reference.model(0)
        model = model.to(dtype) if dtype == torch.float64 else model
        inputs = reference.inputs(seed)
        outputs = tree_leaves(model(*(tree_map(cast, inputs) if dtype == torch.float64 else inputs)))
    return [x for x in outputs if isinstance(x, torch.Tensor)]


def _finite(x: torch.Tensor) -> torch.Tensor:
    """The tensor in fp64, complex numbers as pairs; infinities and NaN become 0."""
    import torch

    return (torch.view_as_real(x) if x.is_complex() else x).double().nan_to_num(0.0, 0.0, 0.0)


class _TooLarge(Exception):
    """A module alone has more elements than were allowed."""


def _measure(reference: Reference, most: float) -> ForwardSize:
    """Run once under fake tensors; on real ones if the reference looks at values and its inputs are small.

    Raises:
        _TooLarge: if parameters and buffers have more than `most` elements.
    """
    import torch
    from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode

    try:
        return _run_forward(reference, FakeTensorMode(allow_non_fake_inputs=True), most)
    except BadInput as error:
        if not isinstance(error.__cause__, DataDependentOutputException | DynamicOutputShapeException | AssertionError):
            raise
    except (DataDependentOutputException, DynamicOutputShapeException, AssertionError):
        pass  # AssertionError: the reference mixes fake tensors with real ones that torch did not see it make
    shapes = input_shapes(reference)
    if sum(math.prod(shape) for shape in shapes) > 32 * MAX_ELEMENTS:
        # Too large to run for real: its inputs alone say how large it is.
        total = sum(math.prod(shape) for shape in shapes)
        return ForwardSize(elements=total, largest=total, flops=math.inf)
    with torch.no_grad():
        return _run_forward(reference, nullcontext(), most)


def _run_forward(reference: Reference, mode: AbstractContextManager[object], most: float) -> ForwardSize:
    import torch
    from torch.utils._pytree import tree_leaves

    from egg_graph.evaluator.problem.batch_norms import WholeBatchNorms
    from egg_graph.evaluator.problem.flops import NecessaryFlops
    from egg_graph.evaluator.problem.forward_form import CalledFunctions, Form, members_of
    from egg_graph.evaluator.problem.recurrences import Recurrence, WholeRecurrences

    recurrences: list[Recurrence] = []
    with mode, torch.no_grad():
        model = reference.model(0)
        held = sum(x.numel() for x in (*model.parameters(), *model.buffers()))
        if held > most:
            raise _TooLarge
        inputs = reference.inputs(0)
        counter = NecessaryFlops()
        whole = WholeRecurrences(recurrences.append), WholeBatchNorms()
        with counter, _largest_tensor() as seen, whole[0], whole[1], CalledFunctions() as called:
            outputs = model(*inputs)
    leaves = [x for x in tree_leaves((inputs, outputs)) if isinstance(x, torch.Tensor)]
    flops = counter.get_total_flops() + sum(r.flops for r in recurrences)
    steps = len(called.names) + sum(r.operators for r in recurrences)
    elements = held + sum(x.numel() for x in leaves)
    form = Form(members_of(model), tuple(called.names))
    return ForwardSize(elements, max(seen.largest, 0), float(flops), steps, form)


def _largest_tensor() -> Any:
    """A dispatch mode that records the size of the largest tensor any operator returned."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    class LargestTensor(TorchDispatchMode):
        largest = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            answer = func(*args, **(kwargs or {}))
            sizes = [x.numel() for x in tree_leaves(answer) if isinstance(x, torch.Tensor)]
            self.largest = max(self.largest, *sizes) if sizes else self.largest
            return answer

    return LargestTensor()

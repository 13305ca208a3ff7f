"""Build and cache the cases of one task, at every shape and seed."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_leaves

from egg_graph.evaluator.problem.aligned_shapes import choose_aligned_shapes, choose_halved_shapes, grow_aligned
from egg_graph.evaluator.problem.case import Case, Unevaluable
from egg_graph.evaluator.problem.case_builder import build_case, with_other_inputs
from egg_graph.evaluator.problem.families import families_of
from egg_graph.evaluator.problem.family_case import build_family_case
from egg_graph.evaluator.problem.forward_summary import summarize_forward
from egg_graph.evaluator.problem.knobs import shape_knobs
from egg_graph.evaluator.problem.long_shapes import LongShapes, choose_long_shapes
from egg_graph.evaluator.problem.memory_plan import MemoryPlan
from egg_graph.evaluator.problem.null_answers import accepts_constant, refuse_constants
from egg_graph.evaluator.problem.precision import cast_as_policy_says, cast_name
from egg_graph.evaluator.problem.randint_ends import RandintEnds
from egg_graph.evaluator.problem.reference import Reference, load_reference, one_line
from egg_graph.evaluator.problem.shape_trials import MAX_ELEMENTS
from egg_graph.evaluator.problem.shapes import choose_shapes
from egg_graph.evaluator.problem.small_shapes import choose_small_shapes
from egg_graph.evaluator.wire import exchange
from egg_graph.schema import BadInput, Baseline, KernelTask

DRAWS = 5
"""Draws of weights and inputs that are tried for one case, since an unlucky bias may push every answer past a clamp."""
SEEDS = {"shrunk": 2, "awkward": 1, "full": 3}
"""Number of seeds by name of the shape; any other shape gets one."""
LONG = "long_"
"""Prefix of the names of long shapes."""
ALIGNED = "aligned_"
"""Prefix of the names of aligned shapes."""
HALVED = "aligned_half_"
"""Prefix of the names of aligned shapes that are half as large as the full one."""
SMALL = "small_"
"""Prefix of the names of small shapes."""
KEPT_BYTES = 1 << 30
"""Keep the tensors of a case at full shape up to this size [bytes]; larger ones are made anew for each use."""
KEPT_PART = 0.02
"""On a GPU, keep them up to this fraction of its memory."""


@dataclass
class CaseStore:
    """Builds the cases of one task on demand and caches them.

    Args:
        task: the reference and the terms of the task.
        root_seed: root of all seeds.
        device: where the reference runs.
    """

    task: KernelTask
    root_seed: int
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    reference: Reference = field(init=False)
    """The reference at full shape."""
    cached_cases: dict[str, list[Case]] = field(default_factory=dict)
    """Cases that have been built, by name of the shape or by a longer key."""
    grown_shapes: dict[str, dict[str, int]] = field(default_factory=dict)
    """Overrides of grown shapes, by name; `grown_names` fills it."""
    dropped_families: dict[str, dict[str, str]] = field(default_factory=dict)
    """Input families that this problem is not judged on, and why, by shape; `family_cases` fills it."""

    def __post_init__(self) -> None:
        self.reference = load_reference(self.task.reference)

    @property
    def nbytes(self) -> int:
        """Approximate bytes that all cached cases take: inputs, answers and weights."""
        cases = [case for cases in self.cached_cases.values() for case in cases]
        return sum(case.weights_bytes + case.kept_bytes for case in cases)

    def seed(self, name: str, index: int) -> int:
        """The seed of one case. It is the same in every run with the same root seed, and unpredictable without it."""
        digest = hashlib.sha256(f"{self.root_seed}/{self.task.digest}/{name}/{index}".encode()).digest()
        return int.from_bytes(digest[:6], "big")

    @cached_property
    def shapes(self) -> dict[str, dict[str, int]]:
        """Overrides of the reduced shapes by name: shrunk, awkward, and the task's further shapes.

        Raises:
            BadInput: if the reference does not run at its own shape, or a further shape names no integer of it.
        """
        shrunk, awkward = choose_shapes(self.task.reference)
        named = {"shrunk": shrunk}
        if awkward != shrunk:
            named["awkward"] = awkward
        for index, overrides in enumerate(self.task.further_shapes):
            load_reference(self.task.reference, overrides)
            named[f"further_{index}"] = dict(overrides)
        return named

    @cached_property
    def long_shapes(self) -> LongShapes:
        """Shapes that replace the full one where no values are computed at it (see `long_shapes`).

        Raises:
            BadInput: if the reference does not run at its own shape.
        """
        return choose_long_shapes(self.task.reference, *self.shapes.values())

    @property
    def long_names(self) -> list[str]:
        """Names of the long shapes: `long_0`, `long_1`, …"""
        return [f"{LONG}{index}" for index in range(len(self.long_shapes.shapes))]

    @cached_property
    def aligned_shapes(self) -> dict[str, dict[str, int]]:
        """Overrides of shapes for kernels that refuse the others, by name: `aligned_0`, … (see `aligned_shapes`)."""
        return {f"{ALIGNED}{i}": shape for i, shape in enumerate(choose_aligned_shapes(self.task.reference))}

    @cached_property
    def small_shapes(self) -> dict[str, dict[str, int]]:
        """Overrides of shapes for kernels that are too slow at the others, by name (see `small_shapes`)."""
        return {f"{SMALL}{i}": shape for i, shape in enumerate(choose_small_shapes(self.task.reference))}

    @cached_property
    def halved_shapes(self) -> dict[str, dict[str, int]]:
        """Overrides of shapes for kernels that refuse the aligned ones as well, by name, for a GPU."""
        return {f"{HALVED}{i}": shape for i, shape in enumerate(choose_halved_shapes(self.task.reference))}

    def grown_names(self, name: str) -> list[str]:
        """Names of the shapes that an aligned one grows to, with one size at its full value."""
        for index, shape in enumerate(grow_aligned(self.task.reference, self.aligned_shapes[name])):
            self.grown_shapes[f"{name}_{LONG}{index}"] = shape
        return [grown for grown in self.grown_shapes if grown.startswith(f"{name}_")]

    def overrides(self, name: str) -> dict[str, int]:
        """Overrides of a shape: a key of `shapes`, one of `long_names`, an aligned, grown or small one, or `full`."""
        if name.startswith(SMALL):
            return self.small_shapes[name]
        if name.startswith(HALVED):
            return self.halved_shapes[name]
        if name.startswith(ALIGNED):
            return self.grown_shapes[name] if name in self.grown_shapes else self.aligned_shapes[name]
        if name.startswith(LONG):
            return self.long_shapes.shapes[int(name.removeprefix(LONG))]
        return {} if name == "full" else self.shapes[name]

    def sizes(self, name: str) -> dict[str, int]:
        """All integers of the reference that may vary, with their values at a shape."""
        return {**shape_knobs(self.task.reference), **self.overrides(name)}

    @cached_property
    def draws_integers(self) -> bool:
        """Whether `get_inputs` draws integers of a known range."""
        with FakeTensorMode(allow_non_fake_inputs=True):
            inputs = self.reference.inputs(0, ends := RandintEnds())
        return any(ends.greatest(x) is not None for x in tree_leaves(inputs))

    @cached_property
    def forward_summary(self) -> Baseline:
        """Operators, bytes and flops of the forward at full shape.

        Raises:
            BadInput: if the reference fails at its own shape.
        """
        return summarize_forward(self.task, self.reference)

    @cached_property
    def memory_plan(self) -> MemoryPlan:
        """GPU memory that judging at full shape takes. Raises as `forward_summary`."""
        capacity = torch.cuda.get_device_properties(self.device).total_memory
        return MemoryPlan(self.forward_summary.compulsory_bytes, capacity)

    @cached_property
    def family_shape(self) -> str:
        """Name of the reduced shape with the fewest bytes, where input families cost least.

        Raises:
            Unevaluable: as `cases`.
        """
        return min(("shrunk", "awkward"), key=lambda n: self.cases(n)[0].nbytes if n in self.shapes else math.inf)

    def cases(self, name: str) -> list[Case]:
        """The cases of one reduced or long shape.

        Raises:
            Unevaluable: if the shape is too large to interpret or its answer cannot be judged.
        """
        if name not in self.cached_cases:
            overrides = self.overrides(name)
            if (elements := self._count_elements(overrides)) > 64 * MAX_ELEMENTS and self.device.type == "cpu":
                raise Unevaluable(f"no smaller shape of it runs ({elements} elements at {name}): it needs a GPU")
            cases = [self.build(name, overrides, index) for index in range(SEEDS.get(name, 1))]
            first = next(iter(self.shapes), name)
            if cases[0].holds_nan and name != first and not self.cases(first)[0].holds_nan:
                raise Unevaluable("PyTorch's own answer holds NaN there, and at another shape it does not")
            self.cached_cases[name] = cases
        return self.cached_cases[name]

    def family_cases(self, name: str) -> list[Case]:
        """One case per input family that this problem can be judged on at one reduced shape.

        All have the form and constructor arguments of `cases(name)[0]`. Their weights are those of that case, except in
        families that round weights (`integers`): load each case's own `state`.

        Raises:
            Unevaluable: as `cases`.
        """
        key = f"{name}/families"
        if key not in self.cached_cases:
            base, dropped = self.cases(name)[0], self.dropped_families.setdefault(name, {})
            cases: list[Case] = []
            self.cached_cases[key] = cases
            reference, precision = load_reference(self.task.reference, self.overrides(name)), self.task.precision
            for family in families_of(base.inputs):
                seed = self.seed(f"{name}/{family}", 0)
                try:
                    cases.append(build_family_case(base, reference, precision, family=family, seed=seed))
                except (Unevaluable, BadInput) as error:
                    dropped[family] = str(error)
        return self.cached_cases[key]

    def full_cases(self) -> Iterator[Case]:
        """The cases at the reference's own shape, one after another; large ones are transient (see `Case`).

        Raises:
            Unevaluable: if the answer cannot be judged, or is one number everywhere within the budget.
            torch.OutOfMemoryError: if they cannot fit into the GPU's memory; nothing was tried then.
        """
        if self.device.type == "cuda" and not self.memory_plan.fits:
            raise torch.OutOfMemoryError(str(self.memory_plan))
        for index in range(SEEDS["full"]):
            key = f"full_{index}"
            if key not in self.cached_cases:
                case = self.build("full", {}, index)
                if index == 0:
                    refuse_constants(case)
                if case.nbytes > self._kept_bytes:
                    case.make_transient()
                self.cached_cases[key] = [case]
                del case
            yield self.cached_cases[key][0]

    def keep(self, key: str, case: Case, *, like: Case) -> None:
        """Cache a case; as a transient one if the case that it was made like is."""
        if like.transient:
            case.make_transient()
        self.cached_cases[key] = [case]

    def build(self, name: str, overrides: dict[str, int], index: int) -> Case:
        """Build one case. If no candidate could fail on it, or the reference fails on it at a shape that nobody asked
        for, try further draws of weights and inputs.

        Args:
            name: name of the shape.
            overrides: integers of the shape.
            index: number of the seed.

        Returns:
            The first case whose answer depends on its inputs; if there is none, the first one that was built.

        Raises:
            BadInput: if the reference fails at its own shape, or at a further one of the task.
            Unevaluable: if no draw can be judged.
        """
        reference, precision = load_reference(self.task.reference, overrides), self.task.precision

        def make(seed: int) -> Case:
            return build_case(reference, precision, name=name, overrides=overrides, seed=seed, device=self.device)

        return self._first_good(name, overrides, index, make, lambda case: not accepts_constant(case, precision))

    def with_other_inputs(self, name: str, case: Case, key: str) -> Case:
        """Build a case of a reduced shape: model and weights of another case, and other inputs. Raises as `build`.

        Args:
            name: name of the shape.
            case: the case to take model and weights from.
            key: what the seeds depend on.
        """
        overrides = self.overrides(name)
        reference, precision = load_reference(self.task.reference, overrides), self.task.precision

        def make(seed: int) -> Case:
            return with_other_inputs(case, reference, precision, name=name, seed=seed, device=self.device)

        return self._first_good(key, overrides, 0, make, lambda _: True)

    def _first_good(
        self,
        key: str,
        overrides: dict[str, int],
        index: int,
        make: Callable[[int], Case],
        is_good: Callable[[Case], bool],
    ) -> Case:
        """The first good one of several draws of a case; if there is none, the first draw.

        At a shape that nobody asked for the reference may fail on some draws: its blocks may not be whole there.

        Raises:
            BadInput: if the reference fails at its own shape, or at a further one of the task.
            Unevaluable: if no draw can be judged.
        """
        asked_for = not overrides or overrides in self.task.further_shapes
        first: Case | Unevaluable | None = None
        for draw in range(DRAWS):
            try:
                drawn = make(self.seed(f"{key}/{draw}" if draw else key, index))
            except Unevaluable as error:
                first = first or error
            except BadInput as error:
                if asked_for:
                    raise
                first = first or Unevaluable(str(error))
            else:
                if is_good(drawn):
                    return drawn
                first = first or drawn
        if isinstance(first, Case):
            return first  # the check of the problem's validity names what is wrong with it
        assert first is not None
        raise first

    @cached_property
    def _kept_bytes(self) -> int:
        """Largest size of a case at full shape whose tensors are kept [bytes]."""
        if self.device.type == "cpu":
            return KEPT_BYTES
        memory = torch.cuda.get_device_properties(self.device).total_memory
        return max(KEPT_BYTES, int(KEPT_PART * memory))

    def arguments(self, overrides: dict[str, int]) -> Any:
        """Arguments of `ModelNew` at a shape, as JSON.

        Raises:
            BadInput: if they have no such form.
        """
        args, kwargs = load_reference(self.task.reference, overrides).init_arguments()
        try:
            return exchange.encode((args, kwargs), exchange.inline)
        except exchange.ExchangeError as error:
            raise BadInput(
                f"reference: get_init_inputs(): {error}; return numbers, strings, tensors and lists"
            ) from error

    def construction(self, case: Case) -> dict[str, Any]:
        """How `ModelNew` is constructed for a case, without its weights, as JSON. Raises as `arguments`."""
        return {
            "arguments": self.arguments(case.overrides),
            "dtype": cast_name(self.task.precision),
            "precision": self.task.precision,
            "seed": case.forward_seed,
        }

    def input_forms(self, overrides: dict[str, int]) -> list[Any]:
        """Forms of the inputs at a shape, as JSON, with the `least` and the `greatest` value of integers whose range is
        known, and the `numbers` of integer tensors that are written out in `get_inputs`.

        Raises:
            BadInput: if they have no such form.
        """
        reference = load_reference(self.task.reference, overrides) if overrides else self.reference
        with FakeTensorMode(allow_non_fake_inputs=True):
            drawn = reference.inputs(0, ends := RandintEnds())
            inputs = cast_as_policy_says(drawn, self.task.precision, copy=False)
        try:
            return [exchange.encode(value, lambda x: _form(x, ends)) for value in inputs]
        except exchange.ExchangeError as error:
            raise BadInput(f"reference: get_inputs(): {one_line(error)}") from error

    def _count_elements(self, overrides: dict[str, int]) -> int:
        """Number of elements of all inputs at a shape."""
        reference = load_reference(self.task.reference, overrides)
        with FakeTensorMode(allow_non_fake_inputs=True):
            return sum(math.prod(x.shape) for x in reference.inputs(0) if isinstance(x, torch.Tensor))


def _form(x: torch.Tensor, ends: RandintEnds) -> dict[str, Any]:
    known = {"least": ends.least(x), "greatest": ends.greatest(x), "numbers": ends.numbers(x)}
    return {**exchange.form(x), **known}

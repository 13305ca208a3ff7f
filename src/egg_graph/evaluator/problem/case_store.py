"""Cases of one task: its reference at every shape and seed, with the answers that are expected."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_leaves

from egg_graph.evaluator.problem.case import Case, Unevaluable, build_case, family_case, with_other_inputs
from egg_graph.evaluator.problem.families import families_of
from egg_graph.evaluator.problem.forward_summary import survey
from egg_graph.evaluator.problem.long_shapes import LongShapes, choose_long_shapes
from egg_graph.evaluator.problem.null_answers import is_constant, refuse_constants
from egg_graph.evaluator.problem.precision import cast_name
from egg_graph.evaluator.problem.randint_ends import Edges
from egg_graph.evaluator.problem.reference import Reference, load_reference, one_line, shape_knobs
from egg_graph.evaluator.problem.shapes import MAX_ELEMENTS, choose_shapes
from egg_graph.evaluator.wire import exchange
from egg_graph.schema import BadInput, Baseline, KernelTask

DRAWS = 5
"""Of weights and inputs for a case, as long as the answer hangs on nothing: a bias may push all of it past a clamp."""
SEEDS = {"shrunk": 2, "awkward": 1, "full": 3}
"""Seeds per shape; a further shape gets one."""
LONG = "long_"
KEPT_BYTES = 2 << 30
"""A case at full shape up to this size is kept for the next candidate; a larger one is built anew. On a GPU, one up to
`KEPT_PART` of its memory."""
KEPT_PART = 0.05


@dataclass
class Cases:
    """The cases of one task, each built once and kept.

    Args:
        task: reference and terms.
        root_seed: root of all seeds.
        device: where the reference runs.
    """

    task: KernelTask
    root_seed: int
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    reference: Reference = field(init=False)
    known: dict[str, list[Case]] = field(default_factory=dict)
    dropped_families: dict[str, dict[str, str]] = field(default_factory=dict)
    """By shape, the input families that this problem is not judged on, and why; filled by `family_cases`."""

    def __post_init__(self) -> None:
        self.reference = load_reference(self.task.reference)

    @property
    def nbytes(self) -> int:
        """What its cases hold, about: inputs, answers and weights."""
        cases = [case for cases in self.known.values() for case in cases]
        weights = sum(x.numel() * x.element_size() for case in cases for x in case.state.values())
        return weights + sum(case.nbytes for case in cases)

    def seed(self, name: str, index: int) -> int:
        """The seed of one case: the same in every run with the same root seed, unpredictable without it."""
        digest = hashlib.sha256(f"{self.root_seed}/{self.task.digest}/{name}/{index}".encode()).digest()
        return int.from_bytes(digest[:6], "big")

    @cached_property
    def shapes(self) -> dict[str, dict[str, int]]:
        """Overrides by name: shrunk, awkward, and the task's further shapes.

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
    def long(self) -> LongShapes:
        """Shapes that stand in for the full one where no value is computed at it: sizes grow to their full value there,
        as many at a time as an interpreter can bear.

        Raises:
            BadInput: if the reference does not run at its own shape.
        """
        return choose_long_shapes(self.task.reference, *self.shapes.values())

    def overrides(self, name: str) -> dict[str, int]:
        """The integers of a shape: one of `shapes`, `long_0` (the first of `long`), or `full`."""
        if name.startswith(LONG):
            return self.long.shapes[int(name.removeprefix(LONG))]
        return {} if name == "full" else self.shapes[name]

    def sizes(self, name: str) -> dict[str, int]:
        """All integers of the reference that may vary, as they are at a shape."""
        return {**shape_knobs(self.task.reference), **self.overrides(name)}

    @property
    def long_names(self) -> list[str]:
        """Names of the long shapes."""
        return [f"{LONG}{index}" for index in range(len(self.long.shapes))]

    @cached_property
    def draws_integers(self) -> bool:
        """Whether inputs hold integers of a known range."""
        with FakeTensorMode(allow_non_fake_inputs=True):
            inputs = self.reference.inputs(0, edges := Edges())
        return any(edges.greatest(x) is not None for x in tree_leaves(inputs))

    @cached_property
    def plainly_surveyed(self) -> Baseline:
        """Operators, bytes and flops at full shape."""
        return survey(self.task, self.reference)

    @cached_property
    def family_shape(self) -> str:
        """The reduced shape with the fewest elements, at which input families are cheapest.

        Raises:
            Unevaluable: as `cases`.
        """
        return min(("shrunk", "awkward"), key=lambda n: self.cases(n)[0].nbytes if n in self.shapes else math.inf)

    def cases(self, name: str) -> list[Case]:
        """The cases of one reduced or long shape.

        Raises:
            Unevaluable: if the shape is too large to interpret or its answer cannot be judged.
        """
        if name not in self.known:
            overrides = self.overrides(name)
            if (elements := self._elements(overrides)) > 64 * MAX_ELEMENTS and self.device.type == "cpu":
                raise Unevaluable(f"no smaller shape of it runs ({elements} elements at {name}): it needs a GPU")
            self.known[name] = [self.build(name, overrides, index) for index in range(SEEDS.get(name, 1))]
        return self.known[name]

    def family_cases(self, name: str) -> list[Case]:
        """One case per input family that this problem can be judged on at one reduced shape.

        All are of the form of `cases(name)[0]`, for the same constructor arguments. Their weights are those of that
        case too, unless `case.state` says otherwise (family `integers`): load each case's own.

        Raises:
            Unevaluable: as `cases`.
        """
        key = f"{name}/families"
        if key not in self.known:
            base, dropped = self.cases(name)[0], self.dropped_families.setdefault(name, {})
            self.known[key] = []
            reference = load_reference(self.task.reference, self.shapes[name])
            for family in families_of(base.inputs):
                seed = self.seed(f"{name}/{family}", 0)
                try:
                    self.known[key].append(family_case(base, reference, self.task.precision, family=family, seed=seed))
                except (Unevaluable, BadInput) as error:
                    dropped[family] = str(error)
        return self.known[key]

    def full_cases(self) -> Iterator[Case]:
        """The cases at the reference's own shape, one after another: only small ones are kept.

        Raises:
            Unevaluable: if the answer cannot be judged, or is one number everywhere within the budget.
        """
        for index in range(SEEDS["full"]):
            key = f"full_{index}"
            if key in self.known:
                yield self.known[key][0]
                continue
            case = self.build("full", {}, index)
            if index == 0:
                refuse_constants(case, self.task.precision)
            if case.nbytes <= self._kept_bytes:
                self.known[key] = [case]
            yield case

    def build(self, name: str, overrides: dict[str, int], index: int) -> Case:
        """Run the reference for one case; on further draws of weights and inputs where the answer hangs on nothing.

        Raises:
            Unevaluable: if no draw can be judged.
        """
        dull: Case | Unevaluable | None = None
        for draw in range(DRAWS):
            try:
                case = self._drawn(name, overrides, self.seed(f"{name}/{draw}" if draw else name, index))
            except Unevaluable as error:
                dull = dull or error
                continue
            if not is_constant(case, self.task.precision):
                return case
            dull = dull or case
        if isinstance(dull, Case):
            return dull  # what no draw mends is told by name when nulls are put to it
        assert dull is not None
        raise dull

    def _drawn(self, name: str, overrides: dict[str, int], seed: int) -> Case:
        reference = load_reference(self.task.reference, overrides)
        return build_case(reference, self.task.precision, name=name, overrides=overrides, seed=seed, device=self.device)

    def with_other_inputs(self, case: Case) -> Case:
        """A case at full shape that differs from `case` in the inputs alone. See `problem.with_other_inputs`."""
        return with_other_inputs(
            case, self.reference, self.task.precision, name="timed", seed=self.seed("timed", 0), device=self.device
        )

    @cached_property
    def _kept_bytes(self) -> int:
        if self.device.type == "cpu":
            return KEPT_BYTES
        return max(KEPT_BYTES, int(KEPT_PART * torch.cuda.get_device_properties(self.device).total_memory))

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
        """How `ModelNew` is made for a case, its weights apart, as JSON. Raises as `arguments`."""
        return {
            "arguments": self.arguments(case.overrides),
            "dtype": cast_name(self.task.precision),
            "precision": self.task.precision,
            "seed": case.forward_seed,
        }

    def input_forms(self, overrides: dict[str, int]) -> list[Any]:
        """Forms of the inputs at a shape, as JSON; with the `greatest` value of integers, where it is known.

        Raises:
            BadInput: if they have no such form.
        """
        reference = load_reference(self.task.reference, overrides) if overrides else self.reference
        with FakeTensorMode(allow_non_fake_inputs=True):
            inputs = reference.inputs(0, edges := Edges())
        try:
            return [
                exchange.encode(value, lambda x: {**exchange.form(x), "greatest": edges.greatest(x)})
                for value in inputs
            ]
        except exchange.ExchangeError as error:
            raise BadInput(f"reference: get_inputs(): {one_line(error)}") from error

    def _elements(self, overrides: dict[str, int]) -> int:
        reference = load_reference(self.task.reference, overrides)
        with FakeTensorMode(allow_non_fake_inputs=True):
            return sum(math.prod(x.shape) for x in reference.inputs(0) if isinstance(x, torch.Tensor))

"""Launches of a fake run that differ from an earlier one in nothing but which tensors they take: a layer after a layer.

Loads give no values in a fake run, so such a launch does what the earlier one did, elsewhere. Its counts follow, and
it stays in bounds if what the earlier one touched does, moved to the new tensors.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from egg_graph.evaluator.interpreter.address_space import Region
from egg_graph.evaluator.interpreter.arguments import is_descriptor, is_tensor
from egg_graph.evaluator.interpreter.programs import ProgramCounts
from egg_graph.evaluator.interpreter.run_state import LaunchState, RunState

COPIED = ("load_bytes", "store_bytes", "atomics", "dot_flops", "computes")
"""What a launch counts on its own."""


@dataclass(frozen=True)
class Place:
    """Where the pointers of one storage begin."""

    region: Region
    first: int
    """Byte offset of the first argument that points here."""


@dataclass(frozen=True)
class Sampled:
    """A launch whose programs were sampled."""

    launch: LaunchState
    counts: ProgramCounts
    places: tuple[Place, ...]
    touched: tuple[tuple[int, int], ...]
    """For each place, the first byte that was touched and the first behind; equal where none was."""


class RepeatedLaunches:
    """The sampled launches of one fake run, by what they have in common."""

    def __init__(self) -> None:
        self.known: dict[Any, Sampled] = {}

    def counts(
        self,
        run: RunState,
        launch: LaunchState,
        form: Any,
        arguments: Iterable[Any],
        sample: Callable[[], ProgramCounts],
    ) -> ProgramCounts:
        """Return the counts of a launch: an earlier one's where that tells them, else those of `sample`.

        Args:
            run: a fake run.
            launch: the current launch; it takes over what the earlier one counted.
            form: grid, constants and options: what must be equal.
            arguments: the kernel's, in order.
            sample: interprets programs of the current launch.
        """
        described = _describe(run, arguments)
        if described is None:
            return sample()
        values, places = described
        key = (form, values)
        earlier = self.known.get(key)
        if earlier is not None and _stays_inside(earlier, places):
            return _moved(run, launch, earlier, places)
        counts = sample()
        touched = tuple((place.region.touched_from, place.region.touched_to) for place in places)
        self.known[key] = Sampled(launch, counts, places, touched)
        return counts


def _describe(run: RunState, arguments: Iterable[Any]) -> tuple[tuple[Any, ...], tuple[Place, ...]] | None:
    """Describe arguments so that storages are told apart by their order alone; None where values may be loaded."""
    if run.load_rng is not None or run.known_by_storage:
        return None
    places: dict[int, Place] = {}
    order: dict[int, int] = {}

    def describe(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(describe(item) for item in value)
        if is_descriptor(value):
            shape = (tuple(value.shape), tuple(value.strides), tuple(value.block_shape), str(value.padding))
            return (*shape, describe(value.base))
        if not is_tensor(value):
            return type(value).__name__, str(value)
        tensor = getattr(value, "base", None) if not hasattr(value, "untyped_storage") else value
        assert tensor is not None, "to_device refused what is no tensor"
        region = run.memory.region_of(tensor, fake=True)
        offset = int(tensor.storage_offset()) * tensor.element_size()
        place = places.setdefault(region.number, Place(region, offset))
        number = order.setdefault(region.number, len(order))
        return number, offset - place.first, str(value.dtype)  # a kernel knows no shape of its pointers

    values = tuple(describe(value) for value in arguments)
    return values, tuple(places.values())


def _stays_inside(earlier: Sampled, places: tuple[Place, ...]) -> bool:
    """Whether all that an earlier launch touched lies inside of the new storages, when moved there."""
    for place, before, (start, end) in zip(places, earlier.places, earlier.touched, strict=True):
        move = place.first - before.first
        if start < end and not 0 <= start + move <= end + move <= place.region.nbytes:
            return False
    return True


def _moved(run: RunState, launch: LaunchState, earlier: Sampled, places: tuple[Place, ...]) -> ProgramCounts:
    """Count a launch as the earlier one, on its own storages."""
    for name in COPIED:
        setattr(launch, name, getattr(earlier.launch, name))
    number = {before.region.number: place.region.number for before, place in zip(earlier.places, places, strict=True)}

    def renamed(counts: dict[tuple[str, str | int], float]) -> dict[tuple[str, str | int], float]:
        kept = {key: value for key, value in counts.items() if isinstance(key[1], str) or key[1] in number}
        return {(kind, number[name] if isinstance(name, int) else name): n for (kind, name), n in kept.items()}

    for before, place in zip(earlier.places, places, strict=True):
        if earlier.counts.sums.get(("store", before.region.number)):
            run.memory.stored.add(place.region.storage._cdata)
    programs = {linear: renamed(one) for linear, one in earlier.counts.programs.items()}
    return ProgramCounts(earlier.counts.total, programs, renamed(earlier.counts.sums))

"""A store of winners: which configuration of a kernel was the fastest on which GPU, for which class of shapes.

A stored winner is the order of a sweep and never a verdict: it is tried second, behind the kernel's own configuration,
and judged anew.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from egg_graph.process_lock import AlreadyLocked, free_lock, take_lock
from egg_graph.schema import BadInput, Baseline, InfrastructureError, KernelTask, Knob, Precision, Value
from egg_graph.tuning.kernel_class import kernel_digest, shape_class
from egg_graph.whole_files import check_writable, user_data_folder, write_whole

FORMAT = 1
"""Version of the file."""
PATIENCE = 10.0
"""Wait so long for another process that writes the store [s]."""
SHIPPED = Path(__file__).with_name("winners.json")
"""The store that ships with the package: what `--store-out` of `tune` and `bench` wrote, on the GPU that it is for."""


class Situation(Value):
    """Where a configuration wins: what has to be alike for it to be worth trying first."""

    gpu: str
    """The GPU's name, as its driver tells it."""
    driver: str
    """Version of the GPU's driver."""
    triton: str
    """Version of Triton."""
    precision: Precision
    kernel: str
    """Digest of the kernel without the values of its knobs (`kernel_digest`)."""
    shapes: str
    """Class of the task's shapes (`shape_class`)."""

    def resembles(self, other: "Situation") -> bool:
        """Whether the two differ at most in the versions of driver and Triton."""
        return self == other.model_copy(update={"driver": self.driver, "triton": self.triton})


class Winner(Value):
    """A configuration that a run handed over, as the fastest of a sweep on a GPU."""

    situation: Situation
    config: dict[str, Knob]
    milliseconds: float
    """Device time, by the evaluation of the finalist [ms]."""
    own_milliseconds: float
    """Device time of the configuration that the kernel came with, by its evaluation in the same run [ms]."""
    tried: int
    """Count of configurations in the sweep."""
    task: str
    """Name of the task."""
    run: str
    """Id of the run that keeps the evidence."""
    created: str
    """When, in UTC (ISO 8601)."""


_WINNERS: TypeAdapter[tuple[Winner, ...]] = TypeAdapter(tuple[Winner, ...])


def situation_of(task: KernelTask, baseline: Baseline, source: str) -> Situation | None:
    """The situation of a kernel; None where no GPU judges.

    Args:
        task: names the precision policy.
        baseline: tells machine and shapes.
        source: the kernel, with its CONFIG.
    """
    machine = baseline.environment
    if machine is None or machine.gpu is None:
        return None
    return Situation(
        gpu=machine.gpu,
        driver=machine.driver or "",
        triton=machine.triton,
        precision=task.precision,
        kernel=kernel_digest(source),
        shapes=shape_class(baseline),
    )


def user_store() -> Path:
    """The user's own store, which may not exist yet: `winners.json` in the user's data folder."""
    return user_data_folder() / "winners.json"


def stores() -> tuple[Path, ...]:
    """The stores that a run reads: the user's own, then the one that ships."""
    return user_store(), SHIPPED


def find_winner(situation: Situation, *paths: Path) -> Winner | None:
    """The winner that is the most likely one here; of stores that agree as well, the first one's.

    One of the same versions goes before one of others, and of those the newest counts.

    Raises:
        BadInput: if a store is damaged.
    """
    known = [winner for path in paths for winner in read_store(path) if winner.situation.resembles(situation)]
    exact = [winner for winner in known if winner.situation == situation]
    return exact[0] if exact else max(known, key=lambda winner: winner.created, default=None)


def read_store(path: Path) -> tuple[Winner, ...]:
    """The winners of a file; none where it does not exist.

    Raises:
        BadInput: if it cannot be read, or is no store.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        known = data["format"] == FORMAT
        winners = _WINNERS.validate_python(data["winners"]) if known else ()
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, KeyError, TypeError, ValidationError) as error:
        what = error.strerror if isinstance(error, OSError) else "it is damaged"
        raise BadInput(f"{path}: no store of winners can be read there ({what}): mend it or remove it") from error
    if not known:
        raise BadInput(f"{path}: a store of winners of format {data['format']!r}; this egg-graph reads {FORMAT}")
    return winners


def check_store(path: Path) -> None:
    """See that a winner could be written into a store. Nothing is left behind.

    Raises:
        BadInput: if the store is damaged, or cannot be written.
    """
    try:
        check_writable(path)
    except OSError as error:
        raise BadInput(f"{path}: the store of winners cannot be written: {error.strerror}") from error
    read_store(path)


def add_winner(path: Path, winner: Winner) -> None:
    """Write a winner into a store, in place of the one of the same situation; the folder is made if missing.

    Several processes may do so at once: each waits for the others, and a reader finds the old file or the new one.

    Raises:
        BadInput: if the store is damaged, or cannot be written.
        InfrastructureError: if another process does not let go of it.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path.with_name(f".{path.name}.lock")):
            others = (known for known in read_store(path) if known.situation != winner.situation)
            winners = sorted([*others, winner], key=lambda known: known.situation.model_dump_json())
            listed = [known.model_dump(mode="json") for known in winners]
            write_whole(path, json.dumps({"format": FORMAT, "winners": listed}, indent=1) + "\n")
    except OSError as error:
        raise BadInput(f"{path}: the store of winners cannot be written: {error.strerror}") from error


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock that other processes wait for.

    Raises:
        InfrastructureError: if somebody else holds it for `PATIENCE` seconds.
        OSError: if it cannot be locked.
    """
    until = time.monotonic() + PATIENCE
    while True:
        try:
            file = take_lock(path)
            break
        except AlreadyLocked as holder:
            if time.monotonic() > until:
                raise InfrastructureError(f"{holder} has held {path} for {PATIENCE:.0f} s; end it, or wait") from None
            time.sleep(0.02)
    try:
        yield
    finally:
        free_lock(file)

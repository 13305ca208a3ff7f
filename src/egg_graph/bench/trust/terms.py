"""What every measurement of the trust commands is told with."""

import datetime
from pathlib import Path

from egg_graph.bench.trust.values import evaluator_digest
from egg_graph.bench.trust.writing import machine
from egg_graph.bench.version import version
from egg_graph.context import choose_target
from egg_graph.schema import BadInput, Candidate, Environment, KernelTask, Precision, Value


class Terms(Value):
    """When, with what and where."""

    version: str
    evaluator: str
    """Digest of the evaluator's own source."""
    started: str
    """UTC."""
    environment: Environment | None = None

    @property
    def line(self) -> str:
        """One line for a page."""
        where = machine(self.environment)
        return f"egg-graph {self.version} (evaluator {self.evaluator}), started {self.started}; {where}."


def terms_now() -> Terms:
    """The terms of a measurement that begins."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return Terms(version=version(), evaluator=evaluator_digest(), started=now)


def read_task(reference: Path, precision: Precision, target: str = "auto") -> KernelTask:
    """A task from a reference file.

    Raises:
        BadInput: if the file cannot be read.
    """
    return KernelTask(
        name=reference.stem,
        reference=_text(reference, "reference"),
        target=choose_target(target),
        precision=precision,
    )


def read_candidate(path: Path) -> Candidate:
    """A candidate from a file.

    Raises:
        BadInput: if the file cannot be read.
    """
    source = _text(path, "candidate")
    return Candidate(source=source, author="user", stage="algorithmic_structure", mode="seed")


def _text(path: Path, what: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: cannot be read; name the {what}'s .py file ({error})") from error

"""When, with what and where a results file was made."""

import datetime
import hashlib
import importlib.metadata
from pathlib import Path

from egg_graph.schema import Environment, Value


class Provenance(Value):
    """Version, evaluator, time and machine of one measurement."""

    version: str
    evaluator: str
    """Digest of the evaluator's own source."""
    started: str
    """Time of the start, UTC, ISO 8601."""
    environment: Environment | None = None

    @property
    def line(self) -> str:
        """One line for a page."""
        where = describe_machine(self.environment)
        return f"egg-graph {self.version} (evaluator {self.evaluator}), started {self.started}; {where}."


def current_provenance(environment: Environment | None = None) -> Provenance:
    """The provenance of a measurement that starts now."""
    return Provenance(version=version(), evaluator=evaluator_digest(), started=utc_now(), environment=environment)


def version() -> str:
    """Version of the installed egg-graph, or "source tree" where it runs without being installed."""
    try:
        return importlib.metadata.version("egg-graph")
    except importlib.metadata.PackageNotFoundError:
        return "source tree"


def utc_now() -> str:
    """The time, UTC, in ISO 8601 to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def evaluator_digest() -> str:
    """SHA-256 of the installed evaluator's source files, as 16 hex digits."""
    import egg_graph.evaluator

    folder = Path(egg_graph.evaluator.__path__[0])
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*.py")):
        digest.update(str(file.relative_to(folder)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


def describe_machine(environment: Environment | None) -> str:
    """GPU, driver and library versions in one line."""
    if environment is None:
        return "no machine told"
    parts = [
        environment.gpu or "no GPU",
        environment.driver and f"driver {environment.driver}",
        environment.cuda and f"CUDA {environment.cuda}",
        f"torch {environment.torch}",
        f"triton {environment.triton}",
        f"Python {environment.python}",
    ]
    return ", ".join(filter(None, parts))

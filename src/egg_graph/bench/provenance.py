"""When, with what and where a results file was made."""

import datetime
import importlib.metadata
import shutil
import subprocess
from pathlib import Path

from egg_graph.evaluator.fingerprint import digest_of, evaluator_digest
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


def code_digest() -> str:
    """SHA-256 of the installed package's source files and of its prompts, as 16 hex digits."""
    from egg_graph.knowledge.shipped import prompt_files, prompt_text

    folder = Path(__file__).parents[1]
    sources = [(str(file.relative_to(folder)), file.read_bytes()) for file in sorted(folder.rglob("*.py"))]
    return digest_of([*sources, *((name, prompt_text(name).encode()) for name in prompt_files(""))])


def commit() -> str:
    """Commit of the source tree that this package runs from, with `-dirty` if a file of it was changed.

    Empty where the package is not run from a source tree, or git is missing.
    """
    folder = Path(__file__).parent
    git = shutil.which("git")
    if git is None or _git(git, folder, "ls-files", "--error-unmatch", Path(__file__).name) is None:
        return ""
    return _git(git, folder, "describe", "--always", "--dirty", "--abbrev=40", "--exclude", "*") or ""


def _git(git: str, folder: Path, *words: str) -> str | None:
    done = subprocess.run([git, "-C", str(folder), *words], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


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

"""Files written whole or not at all, and where those of the user lie."""

import os
import tempfile
from pathlib import Path


def user_data_folder() -> Path:
    """Where files of the user's own are kept for all runs: `egg-graph` in `$XDG_DATA_HOME` or ~/.local/share."""
    return Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share").expanduser() / "egg-graph"


def check_writable(path: Path) -> None:
    """See that a file could be written at a path, its missing folders made. Nothing is left behind.

    Raises:
        OSError: if it could not.
    """
    place = path.parent
    while not place.exists():
        place = place.parent
    with tempfile.TemporaryFile(dir=place):
        pass


def write_whole(path: Path, text: str) -> None:
    """Write a text file in one step: a reader, and a run that is killed, find the old content or the new one.

    Raises:
        OSError: if the folder cannot be written.
    """
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise

"""Atomic writes, and what to tell where a folder cannot be written."""

import errno
import os
import tempfile
from contextlib import suppress
from pathlib import Path

from egg_graph.schema import InfrastructureError

RESUME = "then resume the run: what was done is kept"
"""What to do once the folder of a run can be written again."""
ANEW = "then start the run again"
"""What to do once it can be written again, where nothing was done before."""
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors of a disk, a quota or a file that has reached its limit."""
LEAST_FREE = 65_536
"""With fewer free bytes a disk counts as full: SQLite tells some faults of a full disk as any other."""


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


def cannot_write(folder: Path, fault: OSError | str, after: str, *, full: bool = False) -> InfrastructureError:
    """Make the line for a run's folder that cannot be written.

    Args:
        folder: the run's folder.
        fault: the error, or its text.
        after: what to do once it can be written again, `RESUME` or `ANEW`.
        full: whether the disk is known to be full; otherwise the error and the disk itself are asked.
    """
    if isinstance(fault, OSError):
        full, fault = full or fault.errno in FULL, fault.strerror or str(fault)
    full = full or _is_full(folder)
    cure = (
        "free space on its disk" if full else "see that it is a folder that can be written, on a disk with free space"
    )
    return InfrastructureError(f"cannot write the run's folder {folder}: {fault}; {cure}, {after}")


def _is_full(folder: Path) -> bool:
    """True where the folder's disk has no bytes or no files left; false where it cannot be asked."""
    with suppress(OSError):
        disk = os.statvfs(folder)
        return disk.f_bavail * disk.f_frsize < LEAST_FREE or (disk.f_files > 0 and disk.f_favail == 0)
    return False

"""What to tell where the folder of a run cannot be written; with `write_whole`, by which it is."""

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pydantic_core

from egg_graph.schema import InfrastructureError
from egg_graph.whole_files import write_whole as write_whole

RESUME = "then resume the run: what was done is kept"
"""What to do once the folder of a run can be written again."""
ANEW = "then start the run again"
"""What to do once it can be written again, where nothing was done before."""
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors of a disk, a quota or a file that has reached its limit."""
LEAST_FREE = 65_536
"""With fewer free bytes a disk counts as full: SQLite tells some faults of a full disk as any other."""


def indented(values: dict[str, Any], spaces: int) -> str:
    """JSON values as text that a person can read; Python's own encoder takes twenty times as long where it indents."""
    return pydantic_core.to_json(values, indent=spaces).decode() + "\n"


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

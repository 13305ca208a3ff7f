"""A file that one process locks while it works on what lies beside it, and that names this process."""

import fcntl
import os
import platform
from contextlib import suppress
from pathlib import Path


class AlreadyLocked(Exception):
    """Another process, or another thread of this one, holds the lock; the message names the process."""


def take_lock(path: Path, flags: int = 0) -> int:
    """Open and lock a file, and write into it who holds it. The kernel frees it with the process, however that ends.

    Args:
        path: the file; made if it is not there.
        flags: further flags of `os.open`.

    Returns:
        The file's descriptor, for `free_lock`.

    Raises:
        AlreadyLocked: if somebody else holds it.
        OSError: if the file cannot be opened, locked or written.
    """
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | flags, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.truncate(file, 0)
        os.write(file, f"{this_process()}\n".encode())
    except BlockingIOError as error:
        holder = os.read(file, 200).decode(errors="replace").strip() or "another process"
        os.close(file)
        raise AlreadyLocked(holder) from error
    except OSError:
        free_lock(file)
        raise
    return file


def free_lock(file: int) -> None:
    """Free a lock and close its file."""
    with suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_UN)  # a child that was forked meanwhile would keep the lock of a closed file
    os.close(file)


def this_process() -> str:
    """How a lock names the process that holds it."""
    return f"process {os.getpid()} on {platform.node()}"

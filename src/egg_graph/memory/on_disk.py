"""The memory that the commands use: one SQLite file of the user's, which several processes may use at once."""

import fcntl
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from langgraph.store.base import Op, Result
from langgraph.store.sqlite import SqliteStore

from egg_graph.schema import InfrastructureError
from egg_graph.whole_files import check_writable, user_data_folder

VARIABLE = "EGG_GRAPH_MEMORY"
"""Environment variable that names another file."""
PATIENCE = 30.0
"""Seconds to wait for another process that is writing."""
OF_A_RUN = f"name another file in {VARIABLE}, or run with --no-memory"
"""What to do about a memory that a run cannot use."""
OF_ITSELF = f"delete it if it is damaged (it holds nothing but what runs measured), or name another file in {VARIABLE}"
"""What to do about a memory that is itself asked for."""


def memory_path() -> Path:
    """The file: what `EGG_GRAPH_MEMORY` names, else `memory.sqlite` in the user's data folder."""
    if named := os.environ.get(VARIABLE):
        return Path(named).expanduser()
    return user_data_folder() / "memory.sqlite"


class MemoryFile(SqliteStore):
    """LangGraph's store in a SQLite file, whose faults are told in one line.

    Args:
        path: the file.
        connection: an open connection to it.
        cure: what to do where it cannot be used.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, cure: str = OF_A_RUN) -> None:
        super().__init__(connection)
        self.path, self.cure = path, cure

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """See `SqliteStore.batch`.

        Raises:
            InfrastructureError: if the file cannot be read or written.
        """
        try:
            return super().batch(ops)
        except sqlite3.Error as error:
            raise _unusable(self.path, error, self.cure) from error


@contextmanager
def open_memory(path: Path | None = None, cure: str = OF_A_RUN) -> Iterator[MemoryFile]:
    """Open the memory, and make it where there is none.

    Args:
        path: the file; by default `memory_path()`.
        cure: what to do where it cannot be used.

    Raises:
        InfrastructureError: if the file cannot be made, opened, read or written.
    """
    path = path or memory_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(path, timeout=PATIENCE, check_same_thread=False, isolation_level=None)
    except (OSError, sqlite3.Error) as error:
        raise _unusable(path, error, cure) from error
    memory = MemoryFile(path, connection, cure)
    try:
        try:
            with _alone(path):  # two processes would make the same tables
                memory.setup()
        except (OSError, sqlite3.Error) as error:
            raise _unusable(path, error, cure) from error
        yield memory
    finally:
        with memory.lock:  # SQLite crashes where a connection is closed in the middle of a write
            connection.close()


def memory_exists(path: Path) -> bool:
    """Whether there is a memory; nothing is made where there is none.

    Raises:
        InfrastructureError: if there is none, and none could be made there.
    """
    try:
        if path.exists():
            return True
        check_writable(path)
    except OSError as error:
        raise _unusable(path, error, OF_ITSELF) from error
    return False


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Wait until no other process is at this point."""
    with open(path.with_name(f"{path.name}.lock"), "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _unusable(path: Path, error: Any, cure: str) -> InfrastructureError:
    told = " ".join(str(getattr(error, "strerror", None) or error).split())
    return InfrastructureError(f"the memory {path} cannot be used: {told}; {cure}")

"""The checkpoint database of a run. Its faults are told in one line, and a damaged one is never written to."""

import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.sqlite import SqliteSaver

from egg_graph.calls import start_thread, to_its_end
from egg_graph.runs.delta_history import read_history
from egg_graph.runs.files import ANEW, RESUME, cannot_write
from egg_graph.schema import InfrastructureError
from egg_graph.steering.serde import checkpoint_serde

FILE = "checkpoints.sqlite"
WITHOUT_PARENT = """
    SELECT count(*) FROM checkpoints AS child WHERE parent_checkpoint_id IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM checkpoints AS parent WHERE parent.checkpoint_id = child.parent_checkpoint_id
        AND parent.checkpoint_ns = child.checkpoint_ns AND parent.thread_id = child.thread_id
    )
"""
"""Counts the checkpoints whose parent is lost: the attempts before them would be lost as well, without a word."""
NO_KEYS = ("__", "branch:")
"""How names of channels begin that are LangGraph's own, or lead to a step, which may be one of another version."""
METADATA = frozenset({"source", "step"})
"""What LangGraph reads of the metadata of every checkpoint."""
T = TypeVar("T")


class Checkpoints(SqliteSaver):
    """A `SqliteSaver` that raises `InfrastructureError` where the database fails; a step is saved wholly or not at all.

    Args:
        folder: the run's folder.
        connection: an open connection to the database in it.
        after: what to do once the machine is mended, for the message of an error.
    """

    def __init__(self, folder: Path, connection: sqlite3.Connection, *, after: str = RESUME) -> None:
        super().__init__(connection, serde=checkpoint_serde())
        self.folder = folder
        self.after = after

    @contextmanager
    def cursor(self, transaction: bool = True) -> Iterator[sqlite3.Cursor]:
        """See `SqliteSaver.cursor`, which commits even after an error; here a transaction that failed is taken back."""
        try:
            with super().cursor(transaction) as cursor:
                try:
                    yield cursor
                except BaseException:
                    if transaction:
                        with suppress(sqlite3.Error):
                            self.conn.rollback()
                    raise
        except sqlite3.Error as error:
            raise explain(self.folder, error, self.after) from error
        except UnicodeDecodeError as error:  # SQLite's own message quotes damaged bytes
            raise damaged(self.folder, str(error)) from error

    def check_rows(self) -> None:
        """Let SQLite compare tables and indexes, and follow every checkpoint to its parent: 50 ms for 60 MB.

        Raises:
            InfrastructureError: if something of it is damaged.
        """
        with self.cursor(transaction=False) as cursor:
            ((found, *_), *_) = cursor.execute("PRAGMA integrity_check(1)").fetchall()
            lost = cursor.execute(WITHOUT_PARENT).fetchone()[0]
        if found != "ok" or lost:
            raise damaged(self.folder, found if found != "ok" else "a checkpoint lacks the one before it")

    def check_keys(self, keys: Iterable[str]) -> None:
        """See that every write is one to a key of the state: LangGraph drops any other, such as an attempt, silently.

        Args:
            keys: the channels of the graph.

        Raises:
            InfrastructureError: if a write is to another key.
        """
        with self.cursor(transaction=False) as cursor:
            written = {name for (name,) in cursor.execute("SELECT DISTINCT channel FROM writes").fetchall()}
        unknown = sorted(name for name in written.difference(keys) if not name.startswith(NO_KEYS))
        if unknown:
            raise damaged(self.folder, f"it holds a value for {unknown[0]!r}, which is no key of the state")

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """See `SqliteSaver.get_tuple`. Raises `InfrastructureError` where the bytes of a checkpoint are damaged."""
        with self._telling_damage():
            found = super().get_tuple(config)
            if found is not None and not found.metadata.keys() >= METADATA:
                raise ValueError("a checkpoint lacks its step")
            return found

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """See `read_history`. Raises `InfrastructureError` where a write is damaged."""
        with self._telling_damage(), self.cursor(transaction=False) as cursor:
            return read_history(cursor, self.serde.loads_typed, config, channels)

    @contextmanager
    def _telling_damage(self) -> Iterator[None]:
        try:
            yield
        except ValueError as error:
            raise damaged(self.folder, str(error)) from error

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """`get_tuple` in an event loop. This one and those below work in threads, and end only when these do."""
        return await _in_thread(self.get_tuple, config)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """`get_delta_channel_history` in an event loop; LangGraph's own reads one checkpoint after the other."""
        return await _in_thread(partial(self.get_delta_channel_history, config=config, channels=channels))

    async def alist(self, config: RunnableConfig | None, **options: Any) -> AsyncIterator[CheckpointTuple]:
        """`list` in an event loop."""
        for found in await _in_thread(lambda: list(self.list(config, **options))):
            yield found

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """`put` in an event loop."""
        return await _in_thread(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """`put_writes` in an event loop."""
        await _in_thread(self.put_writes, config, writes, task_id, task_path)


@contextmanager
def open_checkpoints(folder: Path) -> Iterator[Checkpoints]:
    """Open the run's checkpointer. It loads only values of `egg_graph.schema`, whatever the environment says.

    Raises:
        InfrastructureError: if the database is absent, cut short, damaged, or cannot be opened.
    """
    check_whole(folder)
    with _connect(folder, RESUME) as connection:
        checkpoints = Checkpoints(folder, connection)
        checkpoints.check_rows()
        try:
            yield checkpoints
        finally:
            with checkpoints.lock:  # SQLite crashes where a connection is closed in the middle of a write
                connection.close()


def make_checkpoints(folder: Path) -> None:
    """Make the run's database, without a checkpoint: from then on, an absent or empty one has lost its content.

    Raises:
        InfrastructureError: if it cannot be written.
    """
    with _connect(folder, ANEW) as connection, Checkpoints(folder, connection, after=ANEW).cursor():
        pass


def check_whole(folder: Path) -> None:
    """Find a database that was cut short, before SQLite opens it: SQLite drops the log of an empty one.

    Raises:
        InfrastructureError: if it is absent, empty, or ends within a page.
    """
    path = folder / FILE
    try:
        with path.open("rb") as file:
            header = file.read(18)
        size, log = path.stat().st_size, path.with_name(f"{FILE}-wal")
        logged = log.stat().st_size if log.exists() else 0
    except OSError as error:
        raise damaged(folder, f"it cannot be read: {error.strerror}") from error
    page = int.from_bytes(header[16:18], "big")  # SQLite's file format, 1.3.2: the value 1 stands for 65,536 bytes
    page = 65_536 if page == 1 else page
    if page == 0 or size < page or (not logged and size % page):
        raise damaged(folder, f"it is cut short at {size:,} bytes")


def explain(folder: Path, error: sqlite3.Error, after: str) -> InfrastructureError:
    """Make one line of an error of SQLite: what failed, and how to mend it."""
    name = getattr(error, "sqlite_errorname", "")
    if name == "SQLITE_ERROR" or name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")) or "decode" in str(error):
        return damaged(folder, str(error))
    return cannot_write(folder, str(error), after, full=name.startswith("SQLITE_FULL"))


def damaged(folder: Path, reason: str) -> InfrastructureError:
    """Make the line for a database that cannot be read any more."""
    why = " ".join(reason.split())[:200]
    return InfrastructureError(
        f"{folder / FILE} is damaged ({why}); put a copy of it in its place and resume again, or "
        f"start a new run of the reference that {folder / 'run.json'} keeps; nothing in the folder was changed"
    )


@contextmanager
def _connect(folder: Path, after: str) -> Iterator[sqlite3.Connection]:
    try:
        connection = sqlite3.connect(folder / FILE, check_same_thread=False)
    except sqlite3.Error as error:
        raise explain(folder, error, after) from error
    with closing(connection):
        yield connection


async def _in_thread(function: Callable[..., T], *args: Any) -> T:
    """Work in a thread to its end, even if cancelled: the connection may be closed afterwards."""
    return await to_its_end(start_thread(function, *args))

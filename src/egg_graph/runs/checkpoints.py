"""The checkpoint database of a run. Its faults are told in one line, and a damaged one is never written to."""

import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata, CheckpointTuple
from langgraph.checkpoint.sqlite import SqliteSaver

from egg_graph.calls import start_thread, to_its_end
from egg_graph.runs.files import ANEW, RESUME, cannot_write
from egg_graph.schema import InfrastructureError
from egg_graph.steering.serde import checkpoint_serde

FILE = "checkpoints.sqlite"
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

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """See `SqliteSaver.get_tuple`. Raises `InfrastructureError` where the bytes of a checkpoint are damaged."""
        try:
            return super().get_tuple(config)
        except ValueError as error:
            raise damaged(self.folder, str(error)) from error

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """`get_tuple` in an event loop. This one and those below work in threads, and end only when these do."""
        return await _in_thread(self.get_tuple, config)

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
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
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

"""What a channel of deltas is made of, read from the checkpoints of a run.

LangGraph's SQLite checkpointer unpacks every checkpoint between a state and the last whole value of each of its
channels, to look whether it holds one. Here only those are unpacked whose metadata do not rule it out, which are few.
"""

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import DeltaChannelHistory, writes_sort_key

COUNTERS = "counters_since_delta_snapshot"
"""Key of the metadata: of each channel of deltas how long ago its value was stored; none where it is stored here."""
ANCESTORS = """
    WITH RECURSIVE chain(id, parent, metadata) AS (
        SELECT checkpoint_id, parent_checkpoint_id, metadata FROM checkpoints
        WHERE thread_id = :thread AND checkpoint_ns = :ns AND checkpoint_id = :id
        UNION ALL
        SELECT c.checkpoint_id, c.parent_checkpoint_id, c.metadata
        FROM chain CROSS JOIN checkpoints c ON c.checkpoint_id = chain.parent
        WHERE c.thread_id = :thread AND c.checkpoint_ns = :ns
    ) SELECT id, metadata FROM chain
"""
"""A checkpoint and those before it, the nearest first."""
STORED = """
    SELECT type, checkpoint FROM checkpoints WHERE thread_id = :thread AND checkpoint_ns = :ns AND checkpoint_id = :id
"""
WRITTEN = """
    SELECT task_path, task_id, idx, type, value FROM writes
    WHERE thread_id = :thread AND checkpoint_ns = :ns AND checkpoint_id = :id AND channel = :channel
"""
WRITING = """
    SELECT DISTINCT checkpoint_id FROM writes
    WHERE thread_id = :thread AND checkpoint_ns = :ns AND channel = :channel
"""
Load = Callable[[tuple[str, bytes]], Any]


def read_history(
    cursor: sqlite3.Cursor, load: Load, config: RunnableConfig, channels: Sequence[str]
) -> Mapping[str, DeltaChannelHistory]:
    """The last whole value of each channel before a checkpoint, and what was written since, the oldest first.

    Args:
        cursor: one of the database.
        load: unpacks what is stored.
        config: names the checkpoint; what was written after it does not count.
        channels: the channels' names.
    """
    known = config["configurable"]
    of = {"thread": str(known["thread_id"]), "ns": known.get("checkpoint_ns", ""), "id": known["checkpoint_id"]}
    since: dict[str, list[str]] = {channel: [] for channel in channels}
    whole: dict[str, Any] = {}
    for checkpoint, counted in _ancestors(cursor, of):
        open_ = since.keys() - whole.keys()
        if not open_:
            break
        for channel in open_:
            since[channel].append(checkpoint)
        if open_ - counted:
            kind, packed = cursor.connection.execute(STORED, {**of, "id": checkpoint}).fetchone()
            values = load((kind, packed))["channel_values"]
            whole |= {channel: values[channel] for channel in open_ & values.keys()}
    found: dict[str, DeltaChannelHistory] = {}
    for channel, checkpoints in since.items():
        found[channel] = {"writes": list(_writes(cursor, load, {**of, "channel": channel}, checkpoints))}
        if channel in whole:
            found[channel]["seed"] = whole[channel]
    return found


def _ancestors(cursor: sqlite3.Cursor, of: dict[str, str]) -> Iterator[tuple[str, set[str]]]:
    """The checkpoints before one, the nearest first, each with the channels whose value it does not hold."""
    seen = {of["id"]}
    rows = iter(cursor.connection.execute(ANCESTORS, of))
    next(rows, None)
    for checkpoint, metadata in rows:
        if checkpoint in seen:  # one that was stored again after those that followed it
            return
        seen.add(checkpoint)
        yield checkpoint, set((json.loads(metadata) if metadata else {}).get(COUNTERS, ()))


def _writes(
    cursor: sqlite3.Cursor, load: Load, of: dict[str, str], checkpoints: Sequence[str]
) -> Iterator[tuple[str, str, Any]]:
    """What was written to a channel at these checkpoints, of which the nearest comes first."""
    writing = {checkpoint for (checkpoint,) in cursor.execute(WRITING, of)}
    for checkpoint in reversed(checkpoints):
        if checkpoint in writing:
            rows = cursor.execute(WRITTEN, {**of, "id": checkpoint}).fetchall()
            for _, task, _, kind, packed in sorted(rows, key=lambda row: writes_sort_key(*row[:3])):
                yield task, of["channel"], load((kind, packed))

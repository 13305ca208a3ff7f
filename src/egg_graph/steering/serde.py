"""The serializer that a checkpointer of the caller's needs: it loads a run without a warning, strict or not."""

import zlib
from typing import Any

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from egg_graph.schema import Value

LEVEL = 3
"""zlib's level: 0.2 ms for a step of 40 kB, to a quarter. Level 9 takes twice as long, for a tenth less."""
SUFFIX = "+zlib"
"""What the name of a kind of data ends with where its bytes are compressed."""


def checkpoint_serde(*own: type) -> JsonPlusSerializer:
    """Make a serializer that loads the values of `egg_graph.schema`, and no other type but LangGraph's own.

    Pass it to the checkpointer: `InMemorySaver(serde=checkpoint_serde())`, `SqliteSaver(connection, serde=...)`. What
    it writes is compressed, to about a quarter; what was written without compression it reads as well.

    Args:
        *own: further types that a parent's state holds.
    """
    from egg_graph import schema

    ours = [value for value in vars(schema).values() if isinstance(value, type) and issubclass(value, Value)]
    allowed = [*((one.__module__, one.__name__) for one in (*ours, *own)), ("langgraph.types", "Overwrite")]
    return CompressedSerializer(allowed_msgpack_modules=allowed)


class CompressedSerializer(JsonPlusSerializer):
    """A `JsonPlusSerializer` whose data take a quarter of the room: SQLite's checkpoints keep the whole working state.

    The checksum of zlib tells damaged data, so the smallest are compressed as well. Data that was written without
    compression is read as it is.
    """

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Serialize a value: the kind of the data, and the data."""
        kind, data = super().dumps_typed(obj)
        return (kind + SUFFIX, zlib.compress(data, LEVEL)) if data else (kind, data)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Load what `dumps_typed` gave.

        Raises:
            ValueError: if the bytes or the name of their kind are damaged.
        """
        kind, content = data
        if kind.endswith(SUFFIX):
            try:
                kind, content = kind.removesuffix(SUFFIX), zlib.decompress(content)
            except zlib.error as error:
                raise ValueError(f"compressed data is damaged: {error}") from error
        try:
            return super().loads_typed((kind, content))
        except NotImplementedError as error:
            raise ValueError(str(error)) from error

"""The serializer that a checkpointer of the caller's needs to load a run without a warning, strict or not."""

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from egg_graph.compressed import CompressedSerializer
from egg_graph.schema import Value


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

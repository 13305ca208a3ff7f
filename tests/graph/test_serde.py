"""What the serializer of checkpoints writes is small, and what it cannot read it says."""

import pytest
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from egg_graph import checkpoint_serde
from egg_graph.schema import Candidate

CANDIDATE = Candidate(source="x = 1\n" * 1000, author="test", stage="tensor_tiling", mode="seed")


def test_a_large_value_takes_less_room_and_comes_back_as_it_was():
    kind, data = checkpoint_serde().dumps_typed([CANDIDATE])
    assert len(data) < len(JsonPlusSerializer().dumps_typed([CANDIDATE])[1]) / 4
    assert checkpoint_serde().loads_typed((kind, data)) == [CANDIDATE]


@pytest.mark.parametrize(
    "value", [None, 1, "short", b"", [CANDIDATE]], ids=["none", "number", "text", "bytes", "large"]
)
def test_what_was_written_without_compression_is_read(value):
    assert checkpoint_serde().loads_typed(JsonPlusSerializer().dumps_typed(value)) == value
    assert checkpoint_serde().loads_typed(checkpoint_serde().dumps_typed(value)) == value


def test_damaged_bytes_are_a_value_error():
    kind, data = checkpoint_serde().dumps_typed([CANDIDATE])
    for damaged in (data[:-9], b"no zlib" + data):
        with pytest.raises(ValueError, match="damaged"):
            checkpoint_serde().loads_typed((kind, damaged))

"""Compile-time constants on their way from the interpreter's process to the compiler's."""

import json

import pytest
import torch
import triton.language as tl

from egg_graph.evaluator.wire.launches import decode_constant, encode_constant


@pytest.mark.parametrize("value", [torch.float16, torch.int64, tl.float16, tl.float8e5, (1, (torch.bfloat16, None))])
def test_dtypes_of_pytorch_and_of_triton_arrive_as_they_are(value: object) -> None:
    assert decode_constant(json.loads(json.dumps(encode_constant(value))), {}) == value

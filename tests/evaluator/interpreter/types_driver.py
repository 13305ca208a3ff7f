"""Run in a process with TRITON_INTERPRET=1: types, tensors and conversions, as Triton makes them and reused."""

import itertools
import json

import numpy as np
import triton.language as tl
from triton.language.semantic import TritonSemantic
from triton.runtime import interpreter

from egg_graph.evaluator.interpreter import type_reuse

FORMATS = (
    tl.int1, tl.int8, tl.uint8, tl.int32, tl.uint32, tl.int64, tl.float16, tl.bfloat16, tl.float32, tl.float64,
    tl.pointer_type(tl.float32), tl.pointer_type(tl.float32, 1, True),
)  # fmt: skip
SHAPES = ([], [4], [1, 4], [2, 4], [2, 1], [tl.constexpr(2), tl.constexpr(4)])


NUMBERS = (1, -1, True, 2.5, 1e300, 1 << 31, -(1 << 31), 1 << 70, float("nan"))


def made(element, shape):
    block = tl.block_type(element, shape) if shape else element
    number = np.uint64 if element.is_ptr() else interpreter._get_np_dtype(element)
    data = np.ones([tl.core._unwrap_if_constexpr(size) for size in shape] or [1], dtype=number)
    return tl.tensor(interpreter.TensorHandle(data, element), block)


def told(tensor):
    return [
        str(tensor.type), str(tensor.dtype), str(tensor.shape), str(tensor.shape.type), str(tensor.numel),
        str(getattr(tensor.type, "numel", None)), str(tensor.type.scalar), tensor.type.is_block(),
        str(tensor.handle.data.dtype), tensor.handle.data.tolist(),
    ]  # fmt: skip


def outcome(action, *arguments, **options):
    try:
        return [told(tensor) for tensor in action(*arguments, **options)]
    except Exception as error:  # noqa: BLE001 - every outcome is compared
        return f"{type(error).__name__}: {error}"


def everything():
    semantic = TritonSemantic(interpreter.interpreter_builder)
    tensors = [made(element, shape) for element in FORMATS for shape in SHAPES]
    answers = [told(tensor) for tensor in tensors]
    answers += [outcome(lambda given: [made(tl.float32, given)], shape) for shape in ([3], [0], [1 << 21], (4,))]
    for left, right in itertools.product([*tensors, *NUMBERS], repeat=2):
        answers.append(outcome(semantic.binary_op_type_checking_impl, left, right, True, True))
        answers.append(outcome(semantic.binary_op_type_checking_impl, left, right, arithmetic_check=False))
        answers.append(outcome(semantic.binary_op_type_checking_impl, left, right, div_or_mod=True))
    return answers


def equal():
    blocks = [tl.block_type(element, shape) for element in FORMATS for shape in SHAPES if shape]
    return [str(left == right) for left, right in itertools.product(blocks, repeat=2)]


def own_shapes():
    one, other = made(tl.float32, [2, 4]), made(tl.float32, [2, 4])
    one.shape.values[0] = tl.constexpr(7)
    return [str(other.shape), str(made(tl.float32, [2, 4]).shape), str(made(tl.int32, [2, 4]).shape)]


before = [everything(), equal(), own_shapes()]
type_reuse.install()
after = [[everything(), equal(), own_shapes()] for _ in range(2)]
texts = [json.dumps(answers) for answers in (before, *after)]  # nan is not equal to itself
print(json.dumps({"count": len(before[0]), "same": [text == texts[0] for text in texts[1:]], "own": before[2]}))

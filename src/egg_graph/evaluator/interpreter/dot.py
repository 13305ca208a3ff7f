"""`tl.dot` in the arithmetic of tensor cores.

Under `tf32`, fp32 operands lose their 13 low mantissa bits without rounding, as on Hopper (wgmma). That is a bias that
PyTorch does not have. Operands that were rounded to TF32 beforehand (`cvt.rna.tf32.f32`) pass unchanged.
"""

from functools import cache
from typing import Any

import numpy as np
from triton.runtime.interpreter import InterpreterBuilder

from egg_graph.evaluator.interpreter import number_formats
from egg_graph.evaluator.interpreter.handles import from_float, make, repeated, to_float
from egg_graph.evaluator.interpreter.run_state import current_run


def precision_name(operand: Any, input_precision: Any) -> str:
    """Name the operand type: `bf16`, `fp16`, `fp8e5`, `int8`, `fp64`; fp32 with its input precision, as `fp32/tf32`."""
    name = str(operand.dtype.scalar)
    return f"{name}/{str(input_precision).rsplit('.', 1)[-1].lower()}" if name == "fp32" else name


def products(a: np.ndarray, b: np.ndarray, precision: str) -> np.ndarray:
    """Multiply fp32 matrices under input precision `tf32`, `tf32x3`, `bf16x3`, `bf16x6` or `ieee`.

    `tf32x3`, `bf16x3` and `bf16x6` split each operand into parts of lower precision, and add the products of the parts,
    the smallest first.
    """
    if precision == "tf32":
        return np.matmul(number_formats.truncate_to_tf32(a), number_formats.truncate_to_tf32(b))
    if precision == "ieee":
        return np.matmul(a, b)
    bfloat16 = precision.startswith("bf16")
    parts = 3 if precision == "bf16x6" else 2
    left, right = _split(a, parts, bfloat16=bfloat16), _split(b, parts, bfloat16=bfloat16)
    pairs = [(i, j) for i in range(parts) for j in range(parts) if i + j < parts]
    total = np.zeros((*a.shape[:-1], b.shape[-1]), np.float32)
    for i, j in sorted(pairs, key=sum, reverse=True):
        total += np.matmul(left[i], right[j])
    return total


def _split(x: np.ndarray, parts: int, *, bfloat16: bool) -> list[np.ndarray]:
    """Split `x` into a sum of `parts` arrays of lower precision, the largest first."""
    pieces: list[np.ndarray] = []
    for _ in range(parts):
        pieces.append(number_formats.round_to_bfloat16(x) if bfloat16 else number_formats.truncate_to_tf32(x))
        x = x - pieces[-1]
    return pieces


def dot(self: Any, a: Any, b: Any, accumulator: Any, input_precision: Any, max_imprecise: Any) -> Any:
    """Replace `create_dot`, which ignores the input precision and multiplies bfloat16 bits as integers.

    Products are accumulated in fp32 (int32 for int8, fp64 for fp64). A fake run only counts operations.
    """
    run = current_run()
    launch = run.launch
    assert launch is not None
    launch.barrier()
    name = precision_name(a, input_precision)
    flops = 2.0 * a.data.shape[-1] * accumulator.data.size
    launch.dot_flops[name] = launch.dot_flops.get(name, 0.0) + flops
    shape, dtype = accumulator.data.shape, accumulator.dtype.scalar
    if run.fake:
        return make(repeated(np.zeros((), accumulator.data.dtype), shape), dtype)
    if name == "int8":
        product = np.matmul(a.data.astype(np.int32), b.data.astype(np.int32))
    elif name == "fp64":
        product = np.matmul(a.data, b.data)
    else:
        left, right = (to_float(x).astype(np.float32, copy=False) for x in (a, b))
        product = _alike(products(left, right, name.partition("/")[2] or "ieee"), left, right)
    total = product + to_float(accumulator).astype(product.dtype, copy=False)
    return make(from_float(total, accumulator.dtype), dtype)


def _alike(product: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Make rows of a product equal where those of `left` are, and columns where those of `right` are.

    Tensor cores add the terms of each element in the same order; BLAS does so within a block of rows only. A kernel
    that wraps its indices around (`offsets % M`) computes a row twice, and stores it twice.
    """
    if product.ndim != 2:
        return product
    for axis, operand in enumerate((left, right.T)):
        if (first := _first_alike(operand)) is not None:
            product = product.take(first, axis)
    return product


def _first_alike(rows: np.ndarray) -> np.ndarray | None:
    """For each row [N] of [N, K], the number of a row of the same bits, one for all of these; None if all differ."""
    if np.unique(rows[:, 0]).size == rows.shape[0]:
        return None
    digests = np.ascontiguousarray(rows).view(np.uint32).astype(np.uint64) @ _factors(rows.shape[1])
    _, first, kind = np.unique(digests, return_index=True, return_inverse=True)
    return None if first.size == kind.size else first[kind]


@cache
def _factors(number: int) -> np.ndarray:
    """Odd random numbers, whose multiples modulo 2^64 are all different."""
    return 2 * np.random.default_rng(0).integers(0, 2**63, number, np.uint64) + 1


def install(builder: type[InterpreterBuilder]) -> None:
    """Replace the builder's `create_dot`."""
    builder.create_dot = dot

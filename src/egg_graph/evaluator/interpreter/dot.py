"""`tl.dot` in the arithmetic of tensor cores.

Under `tf32`, fp32 operands lose their 13 low mantissa bits without rounding, as on Hopper (wgmma). That is a bias that
PyTorch does not have. Operands that were rounded to TF32 beforehand (`cvt.rna.tf32.f32`) pass unchanged.
"""

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
    """Multiply fp32 matrices under input precision `tf32`, `tf32x3`, `bf16x3`, `bf16x6` or `ieee`, in fp64.

    `tf32x3`, `bf16x3` and `bf16x6` split each operand into parts of lower precision, and add the products of the parts.
    """
    if precision == "ieee":
        return _product(a, b)
    if precision == "tf32":
        return _product(number_formats.truncate_to_tf32(a), number_formats.truncate_to_tf32(b))
    bfloat16 = precision.startswith("bf16")
    parts = 3 if precision == "bf16x6" else 2
    left, right = _split(a, parts, bfloat16=bfloat16), _split(b, parts, bfloat16=bfloat16)
    pairs = [(i, j) for i in range(parts) for j in range(parts - i)]
    return np.sum([_product(left[i], right[j]) for i, j in pairs], axis=0)


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Multiply in fp64, so that a row computed twice, in two programs, is rounded to the same fp32 both times.

    BLAS adds in another order at the edge of a matrix than within; tensor cores do not. A kernel that wraps its indices
    around (`offsets % M`) stores such a row twice.
    """
    return np.matmul(a.astype(np.float64), b.astype(np.float64))


def _split(x: np.ndarray, parts: int, *, bfloat16: bool) -> list[np.ndarray]:
    """Split `x` into a sum of `parts` arrays of lower precision, the largest first."""
    pieces: list[np.ndarray] = []
    for _ in range(parts):
        pieces.append(number_formats.round_to_bfloat16(x) if bfloat16 else number_formats.truncate_to_tf32(x))
        x = x - pieces[-1]
    return pieces


def dot(self: Any, a: Any, b: Any, accumulator: Any, input_precision: Any, max_imprecise: Any) -> Any:
    """Replace `create_dot`, which ignores the input precision and multiplies bfloat16 bits as integers.

    Products are rounded to fp32 and added to the accumulator there (int32 for int8, fp64 for fp64). A fake run only
    counts operations.
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
        product = products(left, right, name.partition("/")[2] or "ieee").astype(np.float32)
    total = product + to_float(accumulator).astype(product.dtype, copy=False)
    return make(from_float(total, accumulator.dtype), dtype)


def install(builder: type[InterpreterBuilder]) -> None:
    """Replace the builder's `create_dot`."""
    builder.create_dot = dot

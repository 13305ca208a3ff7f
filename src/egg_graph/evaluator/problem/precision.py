"""Apply the precision policy to candidate and reference alike.

`ieee`, `tf32` and `tf32_truncated` leave dtypes as declared. `bf16` and `fp16` cast parameters, buffers and floating
inputs. Without a GPU, TF32 is emulated: operands of matrix products are rounded to ten mantissa bits, to nearest with
ties away from zero, as the PTX instruction `cvt.rna.tf32.f32` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from egg_graph.evaluator.problem.operators import PRODUCTS, places_of_operands
from egg_graph.schema import TF32, Precision

CAST: dict[Precision, torch.dtype] = {"bf16": torch.bfloat16, "fp16": torch.float16}
"""The dtype that model and inputs are cast to; policies that cast nothing are absent."""


def cast_name(precision: Precision) -> str | None:
    """Name of the dtype that model and inputs are cast to (`bfloat16`); None if they stay as they are."""
    dtype = CAST.get(precision)
    return None if dtype is None else str(dtype).removeprefix("torch.")


def cast_inputs(inputs: Sequence[Any], dtype: torch.dtype | None, *, copy: bool = True) -> list[Any]:
    """Copy all tensors and cast the floating ones to `dtype` (None keeps their dtype); other values stay.

    Args:
        inputs: tensors and other values.
        dtype: to cast to.
        copy: False leaves tensors that need no cast as they are.
    """

    def cast(x: torch.Tensor) -> torch.Tensor:
        if dtype is None or not x.is_floating_point():
            return x.clone() if copy else x
        return x.to(dtype, copy=copy)

    return list(tree_map_only(torch.Tensor, cast, list(inputs)))


def cast_as_policy_says(inputs: list[Any], precision: Precision, *, copy: bool = True) -> list[Any]:
    """Inputs cast as the policy says; the same tensors where it casts nothing, or some have its dtype already.

    A reference that draws its activations in half precision and a table of angles in fp32 means both. `copy` is as for
    `cast_inputs`.
    """
    dtype = CAST.get(precision)
    if dtype is None or any(isinstance(x, torch.Tensor) and x.dtype == dtype for x in tree_leaves(inputs)):
        return inputs
    return cast_inputs(inputs, dtype, copy=copy)


def cast_model(model: nn.Module, precision: Precision) -> nn.Module:
    """Cast the floating parameters and buffers of a module in place as the policy says, and return the module."""
    dtype = CAST.get(precision)
    return model if dtype is None else model.to(dtype)


def round_to_tf32(x: torch.Tensor) -> torch.Tensor:
    """Round float32 to 10 mantissa bits, to nearest with ties away from zero; infinities and NaN stay."""
    bits = x.contiguous().view(torch.int32)
    rounded = ((bits + 0x1000) & -0x2000).view(torch.float32)
    return torch.where(torch.isfinite(x), rounded, x)


def truncate_to_tf32(x: torch.Tensor) -> torch.Tensor:
    """Drop the 13 low mantissa bits of float32, as a tensor core does with operands that were not rounded."""
    return (x.contiguous().view(torch.int32) & -0x2000).view(torch.float32)


class TF32Products(TorchDispatchMode):
    """While active, rounds the fp32 operands of matrix products and convolutions to TF32.

    Args:
        truncate: truncate operands to TF32 instead.
        grid: round to multiples of this part of TF32's numbers. Another number than a power of two rounds as finely,
            yet each operand to another side: another draw of the errors that rounding makes.
    """

    def __init__(self, *, truncate: bool = False, grid: float = 1.0) -> None:
        super().__init__()
        self.truncate, self.grid = truncate, grid

    def reduce(self, x: torch.Tensor) -> torch.Tensor:
        """Reduce one operand."""
        if self.truncate:
            return truncate_to_tf32(x)
        return round_to_tf32(x) if self.grid == 1.0 else round_to_tf32(x / self.grid) * self.grid

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*with_reduced_operands(func.overloadpacket.__name__, args, self.reduce), **(kwargs or {}))


def with_reduced_operands(
    operator: str, args: Sequence[Any], reduce: Callable[[torch.Tensor], torch.Tensor]
) -> tuple[Any, ...]:
    """The arguments of an operator; those that are fp32 operands of a product, reduced."""
    places = places_of_operands(operator) if operator in PRODUCTS else ()
    return tuple(
        reduce(x) if i in places and isinstance(x, torch.Tensor) and x.dtype == torch.float32 else x
        for i, x in enumerate(args)
    )


@contextmanager
def pytorch_at(precision: Precision, device: torch.device) -> Iterator[None]:
    """Run PyTorch with the policy's product arithmetic: its own flags on a GPU, emulated TF32 on a CPU.

    On a CPU, attention is decomposed into matrix products, so that the policy applies to them too.

    Args:
        precision: the policy.
        device: where PyTorch runs.
    """
    if device.type == "cuda":
        with _cuda_tf32(precision in TF32):
            yield
        return
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        if precision in TF32:
            with TF32Products():
                yield
        else:
            yield


@contextmanager
def _cuda_tf32(on: bool) -> Iterator[None]:
    """Allow or forbid TF32 products, forbid reduced-precision reductions, and restore all flags at the end."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32
    reduced = matmul.allow_bf16_reduced_precision_reduction, matmul.allow_fp16_reduced_precision_reduction
    try:
        matmul.allow_tf32 = cudnn.allow_tf32 = on
        matmul.allow_bf16_reduced_precision_reduction = matmul.allow_fp16_reduced_precision_reduction = False
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32 = before
        matmul.allow_bf16_reduced_precision_reduction, matmul.allow_fp16_reduced_precision_reduction = reduced

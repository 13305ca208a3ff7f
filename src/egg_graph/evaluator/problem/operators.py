"""What is known about ATen operators, and a mode that records which of them a forward runs.

Operators are named without namespace and overload: `aten::add.Tensor` is `add`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

GRADIENTS_OF_CONVOLUTION = "convolution_backward"
PRODUCTS = frozenset(
    {"mm", "addmm", "bmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "convolution", "linear", GRADIENTS_OF_CONVOLUTION}
)
"""Matrix products, whose floating operands a tensor core reads (`places_of_operands`)."""
ADDENDS = frozenset({"addmm", "baddbmm", "addbmm", "addmv"})
"""Matrix products whose first argument is added in fp32 and not rounded."""
RECURRENT = frozenset({"lstm", "gru", "rnn_tanh", "rnn_relu"})
"""Recurrences, whose products are inside."""
EXACT = frozenset(
    {"mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "dot", "convolution", "linear", "add", "sub", "rsub", "mul"}
    | {"div", "neg", "sum", "cumsum", "relu", "clamp", "clamp_min", "clamp_max", "hardtanh", "maximum", "minimum"}
    | {"max", "min", "amax", "amin", "abs", "where", "tril", "triu", "max_pool2d_with_indices"}
    | {"max_pool3d_with_indices", "cat", "stack", "clone", "copy_", "_to_copy", "constant_pad_nd", "flip"}
    | {"leaky_relu", "mean", "avg_pool2d"}
)
"""Operators that keep numbers of few significant bits exact in any order of summation. `mean` and the like are exact
only if the count is a power of two; the answer itself shows whether they were."""
INTEGER_ARITHMETIC = frozenset(
    {"add", "sub", "rsub", "mul", "div", "floor_divide", "remainder", "fmod", "neg", "abs", "sign", "sum", "cumsum"}
    | {"amax", "amin", "max", "min", "argmax", "argmin", "maximum", "minimum", "clamp", "clamp_min", "clamp_max"}
    | {"where", "eq", "ne", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "cat", "stack", "clone", "copy_"}
    | {"_to_copy", "mean", "sort", "cummax", "cummin", "relu", "flip", "pow", "square"}
)
"""Operators that accept any integer values. None of them uses an integer as an index."""
MOVES = frozenset({"clone", "copy_", "cat", "stack", "flip", "roll", "constant_pad_nd", "tril", "triu"})
"""Operators that move numbers without changing them."""
INDEXED_MOVES = frozenset(
    {"gather", "index", "index_select", "embedding", "take", "repeat", "repeat_interleave", "im2col"}
)
"""Operators that move numbers by an index, or move them to several places."""
VIEWS = frozenset(
    {"view", "_unsafe_view", "reshape", "t", "transpose", "permute", "expand", "squeeze", "unsqueeze", "slice"}
    | {"select", "detach", "alias", "as_strided", "split", "split_with_sizes", "unbind", "empty", "empty_like"}
    | {"zeros", "ones", "zeros_like", "ones_like", "new_zeros", "full", "full_like", "lift_fresh", "arange", "lt"}
    | {"le", "gt", "ge"}
)
"""Operators that view, allocate, fill or compare, and therefore round nothing."""
ORDERS_EQUALS = frozenset({"topk", "sort", "max", "min", "kthvalue", "median", "mode", "cummax", "cummin", "unique"})
"""Operators that do not promise which index among equal values they return. `argmax` and `argmin` return the first."""
SELECTS = frozenset(
    {"topk", "sort", "max", "min", "amax", "amin", "aminmax", "kthvalue", "median", "mode", "cummax", "cummin"}
    | {"max_pool2d_with_indices", "max_pool3d_with_indices", "adaptive_max_pool2d", "adaptive_max_pool3d"}
)
"""Operators that answer with some of the numbers that they are given: the errors of all others are lost."""
_STEPS = ("sign", "sgn", "round", "floor", "ceil", "trunc", "frac", "heaviside", "floor_divide", "remainder", "fmod")
JUMPS = frozenset(name + place for name in _STEPS for place in ("", "_"))
"""Operators whose answer jumps where a number crosses zero, a half or a whole number."""
SIZED_BY_VALUES = frozenset(
    {"nonzero", "masked_select", "unique_dim", "unique_consecutive", "_unique", "_unique2", "index"}
    | {"repeat_interleave", "bincount", "_local_scalar_dense"}
)
"""Operators whose answer has as many elements as values of their inputs say."""
EXPONENTIALS = frozenset({"exp", "exp2", "_softmax", "_safe_softmax", "_log_softmax", "logsumexp"})
"""Operators that raise e, or two, to what they are given."""
ATTENTION = frozenset(
    {"scaled_dot_product_attention", "_scaled_dot_product_flash_attention_for_cpu"}
    | {"_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention"}
    | {"_scaled_dot_product_flash_attention", "_scaled_dot_product_attention_math"}
)
"""Operators that raise e to the scores of queries and keys within."""
SEARCHES = frozenset({"searchsorted", "bucketize"})
"""Operators that find places in an ordered tensor."""
READS_ALL = frozenset(
    {"add", "sub", "rsub", "mul", "div", "neg", "abs", "exp", "log", "sqrt", "rsqrt", "sigmoid", "tanh", "relu", "gelu"}
    | {"silu", "elu", "leaky_relu", "softplus", "hardtanh", "hardswish", "hardsigmoid", "selu", "mish", "erf", "pow"}
    | {"sum", "mean", "var", "var_mean", "std", "prod", "cumsum", "cumprod", "linalg_vector_norm", "norm", "logsumexp"}
    | {"_softmax", "_log_softmax", "native_layer_norm", "native_group_norm", "native_batch_norm", "amax", "amin"}
    | {"_native_batch_norm_legit", "_native_batch_norm_legit_functional", "cudnn_batch_norm", "max", "min", "argmax"}
    | {"argmin", "mm", "addmm", "bmm", "baddbmm", "mv", "dot", "square"}
    | {"sin", "cos", "reciprocal", "sign", "_fused_rms_norm", "mse_loss", "smooth_l1_loss", "huber_loss"}
)
"""Operators that read every element. (A convolution or pooling whose stride exceeds its window does not.)"""
READS_SOME = frozenset({"gather", "index", "index_select", "embedding", "take", "take_along_dim", "masked_select"})
"""Operators that read the elements that an index or a mask names."""

UNDEFINED = "conversion of what no integer is"
"""Recorded beside the operators if NaN, an infinity or a number out of range is converted to an integer. Each machine
gives another result for that."""
RECURRENCE = "recurrence"
"""Recorded beside the operators if more than `MANY` operators run. The forward most likely loops over steps, and a
kernel may combine steps in another order."""
MANY = 200
HALVES = frozenset({torch.float16, torch.bfloat16})
"""The 16-bit dtypes."""


def places_of_operands(product: str) -> range:
    """Places of the operands among the arguments of one of `PRODUCTS`."""
    if product == GRADIENTS_OF_CONVOLUTION:
        return range(3)
    first = int(product in ADDENDS)
    return range(first, first + 2)


class OperatorNames(TorchDispatchMode):
    """While active, records the names of the ATen operators that run."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        """Names of operators, and `UNDEFINED` and `RECURRENCE` where they apply."""
        self.count = 0
        """Number of operators that have run."""
        self.rounds_to: set[torch.dtype] = set()
        """Dtypes to which numbers on the way are rounded: 16-bit ones, and fp32 where they are in fp64."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        answer = func(*args, **(kwargs or {}))
        self.names.add(func.overloadpacket.__name__)
        self.count += 1
        if self.count > MANY:
            self.names.add(RECURRENCE)
        if func is torch.ops.aten._to_copy.default:
            if _is_undefined(args[0], answer):
                self.names.add(UNDEFINED)
            if _narrows(args[0].dtype, answer.dtype):
                self.rounds_to.add(answer.dtype)
        return answer


def _narrows(dtype: torch.dtype, target: torch.dtype) -> bool:
    """Whether numbers lose bits where they are rounded to another dtype."""
    if target in HALVES:
        return dtype not in HALVES
    return (dtype, target) == (torch.float64, torch.float32)


def _is_undefined(x: torch.Tensor, converted: torch.Tensor) -> bool:
    """Whether a conversion to integers meets a value that the integer type cannot hold."""
    if not x.is_floating_point() or converted.is_floating_point() or converted.is_complex() or not x.numel():
        return False
    if converted.dtype == torch.bool:
        return False
    limits = torch.iinfo(converted.dtype)
    low, high = (float(bound) for bound in x.aminmax())
    return not (limits.min <= low and high <= limits.max)  # NaN is in no range

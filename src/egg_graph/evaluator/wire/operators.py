"""ATen operators by name: which of them compute, what kinds of work they do, and how a message lists them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import torch

MEMORY_OPERATORS = frozenset(
    {"fill", "fill_", "zero_", "zeros", "ones", "full", "zeros_like", "ones_like", "full_like", "new_zeros", "new_ones"}
    | {"new_full", "copy_", "clone", "_to_copy", "contiguous", "arange", "cat", "stack", "constant_pad_nd"}
)
"""Operators that only fill or move memory. A task may forbid all others."""
COPIES = frozenset({"clone", "copy_", "copy", "_to_copy", "contiguous", "cat", "stack", "constant_pad_nd"})
"""Operators that only copy numbers. They count as work if the reference does nothing else, or if kernels do them."""
MOVEMENTS = COPIES - {"_to_copy"}
"""Copies that put numbers into another place or order, as a channel shuffle does."""
ALLOCATING = frozenset(
    {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "resize_", "set_"}
    | {"_local_scalar_dense", "is_pinned", "pin_memory", "record_stream", "is_same_size", "sym_size", "sym_numel"}
    | {"lift_fresh", "lift", "_unsafe_view", "_reshape_alias", "_reshape_copy", "_has_compatible_shallow_copy_type"}
)
"""Operators that make or describe a tensor without computing or moving an element."""
SPLIT = {"addmm": ("mm", "add"), "baddbmm": ("bmm", "add"), "linear": ("mm", "add"), "addmv": ("mv", "add")}
"""Fused operators -> the operators that they stand for."""
ATTENTION = ("mm", "bmm", "_softmax", "_safe_softmax", "mul", "div", "add", "where", "masked_fill", "triu", "tril")
"""Operators that `_scaled_dot_product_*` stands for."""
WORK = {
    "products": re.compile(r".*mm|.*conv.*|dot|mv|linear|.*attention.*"),
    "reductions": re.compile(r".*(sum|mean|var|std|norm|softmax|max|min|prod|any|all|pool|cum).*"),
    "functions": re.compile(r".*(exp|log|erf|tanh|sigmoid|elu|silu|softplus|softmax|mish|sin|cos|pow|sqrt).*"),
}
"""Kind of work -> pattern of the operators that do it. One operator may do several kinds."""
SHOWN = 6
"""Names that a message lists."""


def operator_name(name: str) -> str:
    """Shorten `aten.mm.default` to `mm`, and `mine.softmax.default` to `mine.softmax`."""
    space, *rest = name.split(".")
    if space == "aten":
        return rest[0] if rest else name
    return ".".join([space, *rest[:1]])


def computing(operators: Iterable[str]) -> tuple[str, ...]:
    """Return the operators that compute: no views, allocations or copies. Names as given, each once."""
    return tuple(dict.fromkeys(name for name in operators if not _is_free(name)))


def _is_free(name: str) -> bool:
    short = operator_name(name)
    if name.startswith(("prim.", "prims.", "profiler.")) or short in MEMORY_OPERATORS or short in ALLOCATING:
        return True
    packet = getattr(torch.ops.aten, short, None) if short.isidentifier() else None
    if packet is None:
        return False
    overload = name.rpartition(".")[2]
    chosen = [overload] if overload in packet.overloads() else packet.overloads()
    return any(getattr(packet, one).is_view for one in chosen)


def parts(operators: Iterable[str]) -> Counter[str]:
    """Count computing operators by short name: fused ones as their parts, in-place ones as their plain form."""
    names = (operator_name(name).rstrip("_") for name in computing(operators))
    return Counter(part for name in names for part in _unfused(name))


def _unfused(name: str) -> tuple[str, ...]:
    return ATTENTION if name.startswith("_scaled_dot_product") else SPLIT.get(name, (name,))


def kinds_of_work(operators: Iterable[str]) -> set[str]:
    """Return the kinds of work (keys of `WORK`) that some operators do together."""
    names = parts(operators)
    return {kind for kind, pattern in WORK.items() if any(pattern.fullmatch(name) for name in names)}


def as_it_lies(x: torch.Tensor) -> torch.Tensor:
    """View a tensor with its dimensions in the order in which its elements lie in memory."""
    return x.permute(sorted(range(x.dim()), key=lambda dim: -x.stride(dim)))


def listed(names: Sequence[str]) -> str:
    """Join the first few names, and say how many more there are."""
    shown = ", ".join(names[:SHOWN])
    return f"{shown} and {len(names) - SHOWN} more" if len(names) > SHOWN else shown

"""ATen operators by name: which of them compute, what kinds of work they do, and how they are told."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import torch

MEMORY_OPERATORS = frozenset(
    {"fill", "fill_", "zero_", "zeros", "ones", "full", "zeros_like", "ones_like", "full_like", "new_zeros", "new_ones"}
    | {"new_full", "copy_", "clone", "_to_copy", "contiguous", "arange", "cat", "stack", "constant_pad_nd"}
)
"""Library operators that only make or move memory; a task may forbid the rest."""
COPIES = frozenset({"clone", "copy_", "copy", "_to_copy", "contiguous", "cat", "stack", "constant_pad_nd"})
"""Operators that do nothing but put numbers elsewhere: work where that is all that the reference does."""
ALLOCATING = frozenset(
    {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "resize_", "set_"}
    | {"_local_scalar_dense", "is_pinned", "pin_memory", "record_stream", "is_same_size", "sym_size", "sym_numel"}
    | {"lift_fresh", "lift", "_unsafe_view", "_reshape_alias", "_reshape_copy", "_has_compatible_shallow_copy_type"}
)
"""Operators that make a tensor, or tell of one, without computing or moving a single element."""
SPLIT = {"addmm": ("mm", "add"), "baddbmm": ("bmm", "add"), "linear": ("mm", "add"), "addmv": ("mv", "add")}
"""Operators that are two in one, so that the parts can be compared."""
ATTENTION = ("mm", "bmm", "_softmax", "_safe_softmax", "mul", "div", "add", "where", "masked_fill", "triu", "tril")
WORK = {
    "products": re.compile(r".*mm|.*conv.*|dot|mv|linear|.*attention.*"),
    "reductions": re.compile(r".*(sum|mean|var|std|norm|softmax|max|min|prod|any|all|pool|cum).*"),
    "functions": re.compile(r".*(exp|log|erf|tanh|sigmoid|elu|silu|softplus|softmax|mish|sin|cos|pow|sqrt).*"),
}
"""Kinds of work by the names of operators that do it: one may stand for several others."""
SHOWN = 6


def operator_name(name: str) -> str:
    """`aten.mm.default` as `mm`; other namespaces keep theirs: `mine.softmax.default` as `mine.softmax`."""
    space, *rest = name.split(".")
    if space == "aten":
        return rest[0] if rest else name
    return ".".join([space, *rest[:1]])


def computing(operators: Iterable[str]) -> tuple[str, ...]:
    """Those operators that compute: neither views, nor allocations, nor mere copies. Names as given, each once."""
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
    """Computing operators by short name, those that are two in one taken apart, in-place ones as their plain form."""
    names = (operator_name(name).rstrip("_") for name in computing(operators))
    return Counter(part for name in names for part in _taken_apart(name))


def _taken_apart(name: str) -> tuple[str, ...]:
    return ATTENTION if name.startswith("_scaled_dot_product") else SPLIT.get(name, (name,))


def kinds_of_work(operators: Iterable[str]) -> set[str]:
    """Kinds of work that some operators do between them."""
    names = parts(operators)
    return {kind for kind, pattern in WORK.items() if any(pattern.fullmatch(name) for name in names)}


def listed(names: Sequence[str]) -> str:
    """The first few of them, and how many more there are."""
    shown = ", ".join(names[:SHOWN])
    return f"{shown} and {len(names) - SHOWN} more" if len(names) > SHOWN else shown

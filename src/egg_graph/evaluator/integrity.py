"""How an answer came about, weighed: did the candidate's own Triton kernels compute it, and did it leave PyTorch alone?

What a candidate's process tells is a witness's word; a finding here says what that word amounts to under the task's
terms. Operators that only look at memory, allocate or move it are free to all.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from egg_graph.evaluator.gpu.fingerprints import TOLD
from egg_graph.evaluator.statements import MEMORY_OPERATORS, no_launch
from egg_graph.schema import Finding, Integrity, KernelTask

ALLOCATING = frozenset(
    {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "resize_", "set_"}
    | {"_local_scalar_dense", "is_pinned", "pin_memory", "record_stream", "is_same_size", "sym_size", "sym_numel"}
    | {"lift_fresh", "lift", "_unsafe_view", "_reshape_alias", "_reshape_copy", "_has_compatible_shallow_copy_type"}
)
"""Operators that make a tensor, or tell of one, without computing or moving a single element."""
COMPILER_PREFIXES = ("triton_poi_", "triton_per_", "triton_red_", "triton_tem_", "triton_for_", "triton_unk_")
"""Names that Inductor gives to the Triton kernels it writes."""
SPLIT = {"addmm": ("mm", "add"), "baddbmm": ("bmm", "add"), "linear": ("mm", "add"), "addmv": ("mv", "add")}
"""Operators that are two in one, so that the parts can be compared."""
ALIKE = (
    frozenset({"relu", "clamp", "clamp_min", "clamp_max", "threshold", "hardtanh", "maximum", "minimum"}),
    frozenset({"masked_fill", "where"}),
    frozenset({"triu", "tril"}),
)
"""Operators that select alike, so that one can stand for another."""
ATTENTION = ("mm", "bmm", "_softmax", "_safe_softmax", "mul", "div", "add", "where", "masked_fill", "triu", "tril")
SELECTS = re.compile(
    r"(relu|leaky_relu|prelu|threshold|clamp|hardtanh|max|min|maximum|minimum|fmax|fmin|amax|amin|aminmax|argmax|argmin|"
    r"cummax|cummin|where|masked|topk|sort|msort|argsort|kthvalue|median|mode|gather|scatter|index|take|select|embedding|"
    r"unique|nonzero|tri[lu]|roll|flip|repeat|repeat_interleave|gt|ge|lt|le|eq|ne|isnan|isinf|logical|bitwise|sign|abs|"
    r"dropout|native_dropout|bernoulli|one_hot|bucketize|searchsorted)(_.*)?|.*pool.*|.*pad.*|upsample.*|.*shuffle.*"
)
"""Operators whose answer may hold nothing but elements of their operands, zeros and ones."""
COPIES = frozenset({"clone", "copy_", "copy", "_to_copy", "contiguous", "cat", "stack", "constant_pad_nd"})
"""Operators that do nothing but put numbers elsewhere: work where that is all that the reference does."""
BULK, TOKEN = 4, 16
"""A copy of a quarter of the answer is one in bulk; kernels that move less than a sixteenth of it move a token."""
WORK = {
    "products": re.compile(r".*mm|.*conv.*|dot|mv|linear|.*attention.*"),
    "reductions": re.compile(r".*(sum|mean|var|std|norm|softmax|max|min|prod|any|all|pool|cum).*"),
    "functions": re.compile(r".*(exp|log|erf|tanh|sigmoid|elu|silu|softplus|softmax|mish|sin|cos|pow|sqrt).*"),
}
"""Kinds of work by the names of operators that do it: one may stand for several others."""
FEW_READ, INPUTS_PER_READ, MOST_READ = 64, 16, 65536
"""A forward may read this many numbers back to the host, or one per so many inputs, but never more than the last."""
PLACING = re.compile(r"flip|roll|gather|index|index_select|take|take_along_dim|embedding|repeat(_interleave)?")
"""Operators that put numbers elsewhere, none of which leaves them all where they were."""
SHOWN = 6
MOST, LONGEST = 2000, 200
"""Names of one kind that are kept, and characters of each."""


@dataclass(frozen=True)
class Traffic:
    """Bytes that one forward moved, as its process told."""

    answer: int
    """Of the leaves that it has to return."""
    results: Mapping[str, int]
    """Of all results of each operator, by name."""
    kernels: float | None = None
    """That its own kernels asked for, loads and stores; None if nobody counted."""

    @classmethod
    def told(cls, answer: int, results: Any, kernels: Any = None) -> Traffic:
        """From the words of a candidate's process, which may be of any form."""
        pairs = results.items() if isinstance(results, Mapping) else ()
        known = {str(name)[:LONGEST]: size for name, size in pairs if isinstance(size, int)}
        return cls(answer, known, kernels if isinstance(kernels, int | float) else None)


def operator_name(name: str) -> str:
    """`aten.mm.default` as `mm`; other namespaces keep theirs: `mine.softmax.default` as `mine.softmax`."""
    parts = name.split(".")
    if parts[0] == "aten":
        parts = parts[1:]
        return parts[0] if parts else name
    return ".".join(parts[:2])


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


def judge_watch(
    task: KernelTask, answer: Mapping[str, Any], reference_operators: Sequence[str] = (), *, answer_bytes: int = 0
) -> tuple[Integrity, list[Finding]]:
    """What a watched forward amounts to.

    Args:
        task: its terms decide whether library operators may compute beside Triton.
        answer: of `witness.watch`.
        reference_operators: ATen operators of one forward of the reference, in order (`Baseline.operators`).
        answer_bytes: of the leaves that it has to return.
    """
    operators, foreign = _names(answer.get("operators")), _names(answer.get("foreign"))
    launches = answer.get("launches")
    kernels = (
        [launch.get("kernel") for launch in launches if isinstance(launch, dict)] if isinstance(launches, list) else []
    )
    integrity = Integrity(
        kernels=_names(kernels),
        operators=operators,
        computing=computing(operators),
        foreign_kernels=foreign,
    )
    return integrity, [
        *_other_compilers(_names(answer.get("compilers")), foreign),
        *judge_integrity(
            task, integrity, reference_operators, traffic=Traffic.told(answer_bytes, answer.get("results"))
        ),
    ]


def _names(found: Any) -> tuple[str, ...]:
    """Names that a candidate's process told, each once; anything else there is data of no meaning."""
    items = found if isinstance(found, list | tuple) else ()
    return tuple(dict.fromkeys(item[:LONGEST] for item in items[:MOST] if isinstance(item, str)))


def judge_integrity(
    task: KernelTask,
    integrity: Integrity,
    reference_operators: Sequence[str] = (),
    *,
    moving: bool = False,
    traffic: Traffic | None = None,
) -> list[Finding]:
    """Findings on what a forward launched and called, wherever it was noted (a GPU or the interpreter).

    Args:
        task: its terms decide whether library operators may compute beside Triton.
        integrity: of the forward.
        reference_operators: ATen operators of one forward of the reference, in order (`Baseline.operators`).
        moving: the kernels stored nothing but what they had loaded (known of the interpreter alone).
        traffic: what was moved by whom, as far as it is known.
    """
    if not integrity.kernels:
        return [no_launch()]
    if moved := _moved_by_library(integrity, reference_operators, traffic):
        return moved
    if task.triton_only and (integrity.computing or integrity.foreign_kernels):
        names = _list([*integrity.computing, *integrity.foreign_kernels])
        return [
            Finding(
                kind="library_call",
                message=f"the task allows Triton kernels only, but forward calls {names}",
                cure="compute this in a Triton kernel too",
            )
        ]
    return (
        _replaces_nothing(integrity, reference_operators)
        or _only_moves(integrity, reference_operators, moving)
        or _only_a_token(integrity, reference_operators, traffic)
    )


def _moved_by_library(
    integrity: Integrity, reference_operators: Sequence[str], traffic: Traffic | None
) -> list[Finding]:
    """Copies in bulk by the library where copying is all that the reference does."""
    moves = {operator_name(name) for name in reference_operators} & COPIES
    if traffic is None or not moves or computing(reference_operators):
        return []
    copied = {name: nbytes for name, nbytes in traffic.results.items() if operator_name(name) in COPIES}
    if not any(copied.values()) or not 0 < traffic.answer <= sum(copied.values()) * BULK:
        return []
    return [
        Finding(
            kind="not_causal",
            message=f"the reference only moves numbers ({_list(sorted(moves))}), and forward has PyTorch move them "
            f"({_list(sorted(copied))}): what is left to its Triton kernels replaces nothing",
            where=f"kernel {', '.join(integrity.kernels)}"[:200],
            cure="read the inputs by their strides in the kernel, and write each number to its place in the output",
        )
    ]


def judge_makers(integrity: Integrity, reference_operators: Sequence[str], makers: Sequence[str]) -> list[Finding]:
    """Answers that the library had computed before any kernel touched them.

    Args:
        integrity: of the forward.
        reference_operators: as for `judge_integrity`.
        makers: by call, the operator that had computed the whole answer; empty where none had.
    """
    placed = all(PLACING.fullmatch(name) for name in _parts(reference_operators))
    if not makers or not all(makers) or not (placed or not _may_select(reference_operators, integrity.computing)):
        return []
    return [
        Finding(
            kind="not_causal",
            message=f"{_list(sorted(set(makers)))} of PyTorch had computed the answer, bit for bit, before any Triton "
            "kernel touched it",
            where=f"kernel {', '.join(integrity.kernels)}"[:200],
            cure="compute in Triton; a kernel that copies another's result is none, whatever it does beside",
        )
    ]


def _may_select(reference_operators: Sequence[str], library: Sequence[str]) -> bool:
    """Whether selecting among numbers (ReLU, maximum, gather), which the library did not do, is left to the kernels:
    what they store may be what they loaded, and what the library gave them may be the answer by chance."""
    wanted, done = set(_parts(reference_operators)), set(_parts(library))
    done = done.union(*(alike for alike in ALIKE if done & alike))
    return not wanted or any(SELECTS.fullmatch(name) for name in wanted - done)


def _only_a_token(integrity: Integrity, reference_operators: Sequence[str], traffic: Traffic | None) -> list[Finding]:
    """Kernels that touch next to nothing, beside library work of every kind that the reference does."""
    wanted, done = _kinds_of_work(reference_operators), _kinds_of_work(integrity.computing)
    if traffic is None or traffic.kernels is None or not integrity.computing or wanted - done:
        return []
    if traffic.kernels * TOKEN >= traffic.answer:
        return []
    return [
        Finding(
            kind="not_causal",
            message=f"the Triton kernels read and write {traffic.kernels} bytes where the answer alone has "
            f"{traffic.answer}: {_list(integrity.computing)} of PyTorch does the work",
            where=f"kernel {', '.join(integrity.kernels)}"[:200],
            cure="compute the answer in Triton; a number that is mixed into another's result is no work",
        )
    ]


def _kinds_of_work(operators: Iterable[str]) -> set[str]:
    names = _parts(operators)
    return {kind for kind, pattern in WORK.items() if any(pattern.fullmatch(name) for name in names)}


def _replaces_nothing(integrity: Integrity, reference_operators: Sequence[str]) -> list[Finding]:
    """Library work that is the whole reference over again: the Triton kernels beside it are for show."""
    wanted, done = _parts(reference_operators), _parts(integrity.computing)
    if not wanted or set(wanted) - set(done):
        return []
    return [
        Finding(
            kind="not_causal",
            message=f"forward calls every operator of the reference itself ({_list(sorted(wanted))}); its Triton "
            f"{'kernels replace' if len(integrity.kernels) > 1 else 'kernel replaces'} none of them",
            where=f"kernel {', '.join(integrity.kernels)}"[:200],
            cure="compute in Triton what the library call computes, and drop the call",
        )
    ]


def _only_moves(integrity: Integrity, reference_operators: Sequence[str], moving: bool) -> list[Finding]:
    """Kernels that hand on numbers which others computed. Where the reference selects (ReLU, maximum, gather) and
    the library did not do that, selecting may be what the kernels are for."""
    if not moving or _may_select(reference_operators, integrity.computing):
        return []
    wanted = set(_parts(reference_operators))
    others = f"{_list(integrity.computing)} of PyTorch" if integrity.computing else "Python"
    return [
        Finding(
            kind="not_causal",
            message=f"the Triton kernels store nothing but numbers that they loaded: what the reference computes "
            f"({_list(sorted(wanted))}) is computed by {others}",
            where=f"kernel {', '.join(integrity.kernels)}"[:200],
            cure="compute in Triton; a kernel that copies another's result is none",
        )
    ]


def judge_read_back(read_back: Any, inputs: Sequence[Any]) -> list[Finding]:
    """Numbers in bulk that a forward reads back to the host: what is computed of them there is no kernel's work.

    Args:
        read_back: by the name of a function or operator, as the candidate's process told.
        inputs: of the forward; a few numbers beside them (lengths, offsets, a scale) are free to all.
    """
    told = read_back.items() if isinstance(read_back, Mapping) else ()
    counts = {str(name)[:LONGEST]: number for name, number in told if isinstance(number, int) and number > 0}
    given = sum(x.numel() for x in torch.utils._pytree.tree_leaves(list(inputs)) if isinstance(x, torch.Tensor))
    total = sum(counts.values())
    if total <= min(max(FEW_READ, given // INPUTS_PER_READ), MOST_READ):
        return []
    return [
        Finding(
            kind="not_causal",
            message=f"forward reads {total} numbers back from the GPU ({_list(sorted(counts))}), where its inputs are "
            f"{given}: what Python, NumPy or PyTorch computes of them on the host is no kernel's work",
            cure="compute it in a Triton kernel; read back nothing but a few lengths or offsets",
        )
    ]


def _parts(operators: Iterable[str]) -> Counter[str]:
    """Computing operators by short name, those that are two in one taken apart, in-place ones as their plain form."""
    names = (operator_name(name).rstrip("_") for name in computing(operators))
    return Counter(part for name in names for part in _taken_apart(name))


def _taken_apart(name: str) -> tuple[str, ...]:
    return ATTENTION if name.startswith("_scaled_dot_product") else SPLIT.get(name, (name,))


def _other_compilers(compilers: Sequence[str], foreign: Sequence[str]) -> list[Finding]:
    """Work handed to a compiler that writes kernels of its own."""
    written = [name for name in foreign if name.startswith(COMPILER_PREFIXES)]
    if not written and not compilers:
        return []
    what = " and ".join([*compilers, *([f"the kernels it writes ({_list(written)})"] if written else [])])
    return [
        Finding(
            kind="forbidden_construct",
            message=f"forward hands its work to another compiler: {what}",
            cure="write the Triton kernel yourself",
        )
    ]


def judge_silence(
    integrity: Integrity, wrong: Sequence[Finding], *, raised: str = "", untried: str = ""
) -> tuple[Integrity, list[Finding]]:
    """Whether the answer rests on the candidate's kernels.

    Args:
        integrity: of the watched forward.
        wrong: what is wrong with the answer of a forward whose own kernels did nothing.
        raised: what that forward raised, or why it did not come back: it needed the kernels' results.
        untried: why it was not tried, if it was not.
    """
    if untried:
        return integrity, []
    causal = bool(wrong) or bool(raised)
    known = integrity.model_copy(update={"causal": causal})
    if causal:
        return known, []
    others = _list(integrity.computing) or "what it had before"
    return known, [
        Finding(
            kind="not_causal",
            message=f"the answer stays right when the Triton kernels do nothing: {others} makes it",
            where=f"kernel {', '.join(integrity.kernels)}"[:200],
            cure="return what the Triton kernels compute",
        )
    ]


def judge_fingerprints(before: Mapping[str, str], after: Mapping[str, str]) -> list[Finding]:
    """What a candidate changed of Python, PyTorch and Triton; `library_patched` names it."""
    changed = [
        f"{name.removeprefix('flag.')}: {before[name]} became {after[name]}"
        for name in sorted(before.keys() & after.keys())  # what the GPU alone can tell is not known before it is open
        if not name.startswith(TOLD) and name != "replaced" and before[name] != after[name]
    ]
    if after.get("replaced"):
        changed.insert(0, f"{after['replaced']} replaced")
    if not changed:
        return []
    return [
        Finding(
            kind="library_patched",
            message=f"the candidate changes the library it runs in: {'; '.join(changed)}"[:600],
            cure="leave Python, PyTorch and Triton as they are; set options on your own kernels",
        )
    ]


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(names[:SHOWN])
    return f"{shown} and {len(names) - SHOWN} more" if len(names) > SHOWN else shown

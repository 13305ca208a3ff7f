"""Judge how an answer came about: did the candidate's own Triton kernels compute it, and is PyTorch unchanged?

The candidate's process reports what it launched and called; the functions here turn that report into findings under
the task's terms. Operators that only view, allocate or move memory are always allowed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from egg_graph.evaluator.evidence.findings import not_causal
from egg_graph.evaluator.evidence.statements import no_launch
from egg_graph.evaluator.evidence.traffic import LONGEST, Traffic, moved_by_library, only_a_token
from egg_graph.evaluator.host.library_state import TOLD
from egg_graph.evaluator.wire.operators import MOVEMENTS, computing, listed, operator_name, parts
from egg_graph.schema import Finding, Integrity, KernelTask

COMPILER_PREFIXES = ("triton_poi_", "triton_per_", "triton_red_", "triton_tem_", "triton_for_", "triton_unk_")
"""Prefixes of the Triton kernels that Inductor writes."""
ALIKE = (
    frozenset({"relu", "clamp", "clamp_min", "clamp_max", "threshold", "hardtanh", "maximum", "minimum"}),
    frozenset({"masked_fill", "where"}),
    frozenset({"triu", "tril"}),
)
"""Operators that select alike, so that one can stand for another."""
SELECTS = re.compile(
    r"(relu|leaky_relu|prelu|rrelu|elu|celu|hardshrink|nan_to_num|threshold|clamp|hardtanh|max|min|maximum|minimum|fmax|"
    r"fmin|amax|amin|aminmax|argmax|argmin|cummax|cummin|where|masked|topk|sort|msort|argsort|kthvalue|median|mode|gather|"
    r"scatter|index|take|select|embedding|unique|nonzero|tri[lu]|roll|flip|repeat|repeat_interleave|gt|ge|lt|le|eq|ne|"
    r"all|any|diag|diagonal|isnan|isinf|isfinite|logical|bitwise|sign|abs|dropout|native_dropout|bernoulli|one_hot|bucketize|searchsorted)(_.*)?|"
    r".*pool.*|.*pad.*|upsample.*|.*shuffle.*"
)
"""Operators whose answer may hold nothing but elements of their operands, zeros and ones."""
PLACING = re.compile(r"flip|roll|gather|index|index_select|take|take_along_dim|embedding|repeat(_interleave)?")
"""Operators that move numbers to other positions."""
MOST = 2000
"""Keep at most this many names of one kind."""


def judge_watch(
    task: KernelTask,
    answer: Mapping[str, Any],
    reference_operators: Sequence[str] = (),
    *,
    answer_bytes: int = 0,
    bytes_read: Callable[[], int] = lambda: 0,
) -> tuple[Integrity, list[Finding]]:
    """Judge the report of one recorded forward.

    Args:
        task: its terms decide whether library operators may compute beside Triton.
        answer: of `recorder.record_forward`.
        reference_operators: ATen operators of one forward of the reference, in order (`Baseline.operators`).
        answer_bytes: of the leaves that it has to return.
        bytes_read: tells the bytes of the inputs that the reference surely reads from end to end.
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
    library = answer.get("library_read")
    traffic = Traffic.told(answer_bytes, answer.get("results"), library=library, read=bytes_read)
    copied = bool(answer.get("copied"))
    judged = judge_integrity(task, integrity, reference_operators, copied=copied, traffic=traffic)
    maker = answer.get("made_by")
    makers = [maker[:LONGEST]] if isinstance(maker, str) else []
    return integrity, [
        *_other_compilers(_names(answer.get("compilers")), foreign),
        *(judged or judge_makers(integrity, reference_operators, makers)),
    ]


def _names(found: Any) -> tuple[str, ...]:
    """Names in a candidate's report, each once; anything else in it is ignored."""
    items = found if isinstance(found, list | tuple) else ()
    return tuple(dict.fromkeys(item[:LONGEST] for item in items[:MOST] if isinstance(item, str)))


def judge_integrity(
    task: KernelTask,
    integrity: Integrity,
    reference_operators: Sequence[str] = (),
    *,
    moving: bool | None = None,
    copied: bool = False,
    traffic: Traffic | None = None,
) -> list[Finding]:
    """Judge what a forward launched and called, on a GPU or in the interpreter.

    Args:
        task: its terms decide whether library operators may compute beside Triton.
        integrity: of the forward.
        reference_operators: ATen operators of one forward of the reference, in order (`Baseline.operators`).
        moving: whether the kernels stored nothing but what they had loaded; None on a GPU, where it is not known.
        copied: a kernel's plain copy of what operators had computed, or of an input, was handed to another operator.
        traffic: what was moved by whom, as far as it is known.
    """
    if not integrity.kernels:
        return [no_launch()]
    if moved := moved_by_library(integrity, reference_operators, traffic):
        return moved
    if task.triton_only and (integrity.computing or integrity.foreign_kernels):
        names = listed([*integrity.computing, *integrity.foreign_kernels])
        return [
            Finding(
                kind="library_call",
                message=f"the task allows Triton kernels only, but forward calls {names}",
                cure="compute this in a Triton kernel too",
            )
        ]
    token = only_a_token(integrity, reference_operators, traffic)
    if token or (moving is not False and not copied and _takes_over_a_movement(integrity, reference_operators)):
        return token
    return _replaces_nothing(integrity, reference_operators, traffic) or _only_moves(
        integrity, reference_operators, moving
    )


def judge_makers(integrity: Integrity, reference_operators: Sequence[str], makers: Sequence[str]) -> list[Finding]:
    """Reject answers that a library operator had computed before any Triton kernel ran.

    Args:
        integrity: of the forward.
        reference_operators: as for `judge_integrity`.
        makers: by call, the operator that had computed the whole answer; empty where none had.
    """
    placed = all(PLACING.fullmatch(name) for name in parts(reference_operators))
    if not makers or not all(makers) or not (placed or not _may_select(reference_operators, integrity.computing)):
        return []
    return [
        not_causal(
            f"{listed(sorted(set(makers)))} of PyTorch had computed the answer, bit for bit, before any Triton "
            "kernel touched it",
            "compute in Triton; a kernel that copies another's result is none, whatever it does beside",
            integrity.kernels,
        )
    ]


def _may_select(reference_operators: Sequence[str], library: Sequence[str]) -> bool:
    """Whether selecting among numbers (ReLU, maximum, gather), which the library did not do, is left to the kernels:
    what they store may be what they loaded, and what the library gave them may be the answer by chance."""
    wanted, done = set(parts(reference_operators)), set(parts(library))
    done = done.union(*(alike for alike in ALIKE if done & alike))
    return not wanted or any(SELECTS.fullmatch(name) for name in wanted - done)


def _takes_over_a_movement(integrity: Integrity, reference_operators: Sequence[str]) -> bool:
    """Whether the library leaves out a kind of copy that the reference makes, and makes no other kind in its place."""
    wanted, done = (
        {operator_name(name) for name in names} & MOVEMENTS for names in (reference_operators, integrity.operators)
    )
    return done < wanted


def _replaces_nothing(
    integrity: Integrity, reference_operators: Sequence[str], traffic: Traffic | None
) -> list[Finding]:
    """Reject a forward whose library calls repeat every operator of the reference, on more than a small rest."""
    wanted, done = parts(reference_operators), parts(integrity.computing)
    if not wanted or set(wanted) - set(done) or (traffic is not None and traffic.library_finishes):
        return []
    return [
        not_causal(
            f"forward calls every operator of the reference itself ({listed(sorted(wanted))}); its Triton "
            f"{'kernels replace' if len(integrity.kernels) > 1 else 'kernel replaces'} none of them",
            "compute in Triton what the library call computes, and drop the call",
            integrity.kernels,
        )
    ]


def _only_moves(integrity: Integrity, reference_operators: Sequence[str], moving: bool | None) -> list[Finding]:
    """Kernels that hand on numbers which others computed. Where the reference selects (ReLU, maximum, gather) and
    the library did not do that, selecting may be what the kernels are for."""
    if not moving or _may_select(reference_operators, integrity.computing):
        return []
    wanted = set(parts(reference_operators))
    others = f"{listed(integrity.computing)} of PyTorch" if integrity.computing else "Python"
    return [
        not_causal(
            f"the Triton kernels store nothing but numbers that they loaded: what the reference computes "
            f"({listed(sorted(wanted))}) is computed by {others}",
            "compute in Triton; a kernel that copies another's result is none",
            integrity.kernels,
        )
    ]


def _other_compilers(compilers: Sequence[str], foreign: Sequence[str]) -> list[Finding]:
    """Reject work that is handed to another compiler."""
    written = [name for name in foreign if name.startswith(COMPILER_PREFIXES)]
    if not written and not compilers:
        return []
    what = " and ".join([*compilers, *([f"the kernels it writes ({listed(written)})"] if written else [])])
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
    """Judge whether the answer depends on the candidate's kernels.

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
    others = listed(integrity.computing) or "what it had before"
    return known, [
        not_causal(
            f"the answer stays right when the Triton kernels do nothing: {others} makes it",
            "return what the Triton kernels compute",
            integrity.kernels,
        )
    ]


def judge_fingerprints(before: Mapping[str, str], after: Mapping[str, str]) -> list[Finding]:
    """Report (as `library_patched`) what a candidate changed in Python, PyTorch and Triton."""
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

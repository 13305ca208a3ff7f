"""Right answers on a GPU: one call of a candidate in memory that the judge owns and poisoned, compared with fp64."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from egg_graph.evaluator import exchange
from egg_graph.evaluator.answers import judge_leaves
from egg_graph.evaluator.compare import poison_
from egg_graph.evaluator.docket import Docket
from egg_graph.evaluator.gpu_arena import Arena
from egg_graph.evaluator.gpu_session import Session
from egg_graph.evaluator.precision import CAST
from egg_graph.evaluator.problem import Case
from egg_graph.schema import Check, Finding


@contextmanager
def arena(session: Session | None = None) -> Iterator[Arena]:
    """Shared memory for the block; the session's worker closes it before it is freed."""
    shared = Arena()
    try:
        yield shared
    finally:
        try:
            if session is not None and session.alive:
                session.ask("release", handles=shared.handles)
        finally:
            shared.free()


def load(case: Case, docket: Docket, shared: Arena) -> dict[str, Any]:
    """Arguments of the worker's `load`: the constructor's at a case's shape, and the weights."""
    dtype = CAST.get(docket.task.precision)
    state = {name: shared.share(tensor.to(docket.device))[1] for name, tensor in case.state.items()}
    torch.cuda.synchronize()
    return {
        "arguments": docket.arguments(case.overrides),
        "dtype": None if dtype is None else str(dtype).removeprefix("torch."),
        "precision": docket.task.precision,
        "seed": case.forward_seed,
        "state": state,
    }


def share_inputs(case: Case, shared: Arena) -> tuple[list[Any], list[Any]]:
    """Copies of the inputs in shared memory (kept to see what became of them), and their forms."""
    copies: list[torch.Tensor] = []

    def share(tensor: torch.Tensor) -> dict[str, Any]:
        copy, form = shared.share(tensor)
        copies.append(copy)
        return form

    forms = [exchange.encode(value, share) for value in case.inputs]
    torch.cuda.synchronize()
    return copies, forms


def refill(copies: Sequence[torch.Tensor], case: Case) -> None:
    """Put the inputs of another case of the same form where a candidate finds those of the last."""
    for copy, tensor in zip(copies, input_tensors(case), strict=True):
        copy.copy_(tensor)
    torch.cuda.synchronize()


def poisoned_targets(case: Case, shared: Arena) -> tuple[list[torch.Tensor], list[dict[str, Any]]]:
    """Buffers for the leaves of an answer, of poisoned content, and their forms."""
    targets = [shared.empty(leaf.expected.shape, leaf.dtype) for leaf in case.leaves]
    for tensor, _ in targets:
        poison_(tensor)
    torch.cuda.synchronize()
    return [tensor for tensor, _ in targets], [form for _, form in targets]


def check(session: Session, docket: Docket, case: Case, machine: str) -> tuple[list[Finding], Check | None]:
    """Load at a case's shape, call once in poisoned memory, compare.

    Raises:
        CandidateFailed: if the call does not come back.
        torch.OutOfMemoryError: if the judge's part does not fit.
    """
    with arena(session) as shared:
        session.ask("load", **load(case, docket, shared))
        return check_loaded(session, docket, case, machine)


def check_loaded(session: Session, docket: Docket, case: Case, machine: str) -> tuple[list[Finding], Check | None]:
    """One call of what is loaded, and its comparison. Raises as `check`."""
    with arena(session) as shared:
        inputs, forms = share_inputs(case, shared)
        session.ask("inputs", inputs=forms, seed=case.forward_seed)
        targets, target_forms = poisoned_targets(case, shared)
        answer = session.ask("call", outputs=target_forms)
        return judge_answer(docket, case, answer, targets, inputs, machine, source_of(session))


def source_of(session: Session) -> str:
    """Text of the candidate, which words of a finding may name."""
    return (session.folder / "candidate.py").read_text(errors="replace")


def input_tensors(case: Case) -> list[torch.Tensor]:
    """The tensors among a case's inputs, in order."""
    return [x for x in torch.utils._pytree.tree_leaves(case.inputs) if isinstance(x, torch.Tensor)]


def judge_answer(
    docket: Docket,
    case: Case,
    answer: dict[str, Any],
    got: Sequence[torch.Tensor],
    inputs: Sequence[torch.Tensor],
    machine: str,
    source: str,
) -> tuple[list[Finding], Check | None]:
    """What is wrong with an answer.

    Args:
        docket: of the task.
        case: what was asked.
        answer: structure and forms, as the worker told them.
        got: the judge's own buffers with what the worker put into them.
        inputs: the shared copies of the inputs, to see whether the call changed them.
        machine: name of the GPU.
        source: of the candidate.
    """
    forms, structure = answer.get("leaves"), answer.get("structure")
    if not isinstance(forms, list) or not isinstance(structure, str):
        return [Finding(kind="exited", message="the process gave no readable answer")], None
    strange = sorted({form["strange"] for form in forms if "strange" in form})
    if strange:
        message = f"forward returns {', '.join(strange)} where the reference returns tensors"
        return [Finding(kind="wrong_structure", message=message)], None
    if structure != case.structure or len(forms) != len(case.leaves):
        message = f"forward returns {structure} where the reference returns {case.structure} (* is a tensor)"
        return [Finding(kind="wrong_structure", message=message)], None
    leaves: list[Any] = [
        tensor
        if form["shape"] == list(tensor.shape) and form["dtype"] == exchange.dtype_name(tensor)
        else torch.empty(form["shape"], dtype=exchange.DTYPES[form["dtype"]], device="meta")  # form alone: it is wrong
        for tensor, form in zip(got, forms, strict=True)
    ]
    findings = _mutated(docket, case, inputs)
    compared, check = judge_leaves(docket.task, case, leaves, machine=machine, source=source)
    return [*findings, *compared], check


def _mutated(docket: Docket, case: Case, copies: Sequence[torch.Tensor]) -> list[Finding]:
    tensors = input_tensors(case)
    names = docket.reference.forward_names(len(tensors))
    return [
        Finding(
            kind="input_mutated",
            message=f"forward changes its input {name}, which the reference leaves alone",
            where=name,
            cure="write to a fresh tensor (torch.empty_like), not to the input",
        )
        for name, before, after in zip(names, tensors, copies, strict=True)
        if not _same_bytes(before, after)
    ]


def _same_bytes(a: torch.Tensor, b: torch.Tensor) -> bool:
    a, b = a.contiguous().reshape(-1), b.contiguous().reshape(-1)
    return bool(torch.equal(a.view(torch.uint8), b.view(torch.uint8))) if a.numel() else True

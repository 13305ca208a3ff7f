"""Right answers on a GPU: one call of a candidate in memory that the judge owns and poisoned, compared with fp64."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from egg_graph.evaluator.gpu.arena import Arena, Overrun, from_a_band
from egg_graph.evaluator.gpu.worker_session import WorkerSession
from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.comparison import Answer, input_names, input_tensors, leaf_name
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.wire import exchange
from egg_graph.evaluator.wire.poison import poison_
from egg_graph.schema import Finding


@contextmanager
def arena(session: WorkerSession | None = None) -> Iterator[Arena]:
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


def load(case: Case, problem: Problem, shared: Arena) -> dict[str, Any]:
    """Arguments of the worker's `load`: the constructor's at a case's shape, and the weights."""
    return {**problem.construction(case), "state": share_state(case, problem, shared)}


def share_state(case: Case, problem: Problem, shared: Arena) -> dict[str, dict[str, Any]]:
    """The weights in shared memory: forms by name, from which the module gets copies."""
    state = {name: shared.share(x.to(problem.device), name=f"weight {name}")[1] for name, x in case.state.items()}
    torch.cuda.synchronize()
    return state


def share_inputs(case: Case, shared: Arena, problem: Problem | None = None) -> tuple[list[torch.Tensor], list[Any]]:
    """Copies of the inputs in shared memory (kept to see what became of them), and their forms."""
    names = iter(input_names(problem.reference, case) if problem is not None else [])
    copies: list[torch.Tensor] = []

    def share(tensor: torch.Tensor) -> dict[str, Any]:
        copy, form = shared.share(tensor, name=f"input {next(names, len(copies))}")
        copies.append(copy)
        return form

    forms = [exchange.encode(value, share) for value in case.inputs]
    torch.cuda.synchronize()
    return copies, forms


def refill(copies: Sequence[torch.Tensor], case: Case) -> None:
    """Put the inputs of another case of the same form where a candidate finds those of the last.

    The candidate's tensors stay the same objects at the same addresses, and PyTorch counts no new version of them.
    """
    for copy, tensor in zip(copies, input_tensors(case), strict=True):
        copy.copy_(tensor)
    torch.cuda.synchronize()


def poisoned_targets(case: Case, shared: Arena) -> tuple[list[torch.Tensor], list[dict[str, Any]]]:
    """Buffers for the leaves of an answer, of poisoned content, and their forms."""
    targets = [shared.empty(leaf.expected.shape, leaf.dtype, name="the place of an answer") for leaf in case.leaves]
    for tensor, _ in targets:
        poison_(tensor)
    torch.cuda.synchronize()
    return [tensor for tensor, _ in targets], [form for _, form in targets]


def source_of(session: WorkerSession) -> str:
    """Text of the candidate, which words of a finding may name."""
    return (session.folder / "candidate.py").read_text(errors="replace")


def received(
    problem: Problem,
    case: Case,
    told: dict[str, Any],
    targets: Sequence[torch.Tensor],
    inputs: Sequence[torch.Tensor],
    machine: str,
    source: str,
    overruns: Sequence[Overrun] = (),
) -> Answer:
    """An answer as the judge holds it.

    Args:
        problem: the task under judgement.
        case: what was asked.
        told: structure and forms, as the worker told them.
        targets: the judge's own buffers with what the worker put into them.
        inputs: the shared copies of the inputs.
        machine: name of the GPU.
        source: text of the candidate.
        overruns: what was written beside shared tensors.
    """
    forms, changed = told.get("leaves"), told.get("changed")
    names = input_names(problem.reference, case)
    return Answer(
        structure=told.get("structure"),
        forms=forms,
        leaves=targets,
        inputs=inputs,
        machine=machine,
        source=source,
        changed=changed if isinstance(changed, list) else [],
        aliases=list(_aliases(forms, names)) if isinstance(forms, list) else [],
        observed=overrun_findings(overruns),
        strays=[finding for leaf in targets for finding in _read_beside(leaf)],
    )


def _aliases(forms: Sequence[Any], names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Leaf and owner of each leaf that lies in the memory of another tensor, as the worker told."""
    for number, form in enumerate(forms):
        owners = form.get("aliases") if isinstance(form, dict) else None
        for owner in owners[:1] if isinstance(owners, list) else ():
            kind, _, index = str(owner).partition(" ")
            known = kind == "input" and index.isdigit() and int(index) < len(names)
            yield leaf_name(number, len(forms)), f"input {names[int(index)]}" if known else str(owner)


def overrun_findings(overruns: Sequence[Overrun]) -> list[Finding]:
    """Findings on memory beside a shared tensor that somebody wrote to."""
    return [
        Finding(
            kind="out_of_bounds",
            message=f"a kernel writes {over.side} {over.name or 'a tensor'}: {over.changed} bytes of the guard band "
            f"there changed, the nearest {over.nearest} bytes away",
            where=over.name,
            cure="mask every store; look at offsets that may pass the end of a tensor",
        )
        for over in overruns
    ]


def _read_beside(leaf: torch.Tensor) -> list[Finding]:
    """What an answer holds of the bands round shared tensors."""
    mask = from_a_band(leaf)
    if not bool(mask.any()):
        return []
    first = tuple(int(i) for i in mask.nonzero()[0])
    return [
        Finding(
            kind="out_of_bounds",
            message=f"{int(mask.sum())} of {leaf.numel()} elements hold what lies beside an input, not in it; first at "
            f"{list(first)}",
            cure="mask every load; look at offsets that may pass the end of a tensor",
        )
    ]

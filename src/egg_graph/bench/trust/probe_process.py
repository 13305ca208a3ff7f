"""`python -m egg_graph.bench.trust.probe_process REFERENCE DEVICE PRECISION`: judge one problem, print JSON."""

from __future__ import annotations

import json
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from egg_graph.evaluator.garbage_collection import garbage_collection_off
from egg_graph.schema import BadInput, KernelTask, Precision

if TYPE_CHECKING:
    from egg_graph.evaluator.problem.problem import Problem

JUDGED = "judged"
"""Told of a problem whose own shape has inputs and an answer that can be judged."""


def main(reference: Path, device: str, precision: Precision) -> dict[str, Any]:
    """The verdict on one problem, as JSON data."""
    with garbage_collection_off():
        import torch
        import torch._dynamo  # the first question to any reference is asked under fake tensors, which import it

        from egg_graph.evaluator.problem.problem import Problem
        from egg_graph.knowledge import load_hardware

    torch.set_num_threads(1)
    task = KernelTask(
        name=reference.stem, reference=reference.read_text(), target=load_hardware("h200"), precision=precision
    )
    problem = Problem(task, secrets.randbits(62), torch.device("cuda" if device == "gpu" else "cpu"))
    try:
        return _on_gpu(problem) if device == "gpu" else _surveyed(problem)
    except BadInput as error:
        return {"verdict": "unevaluable", "reason": str(error)}


def _on_gpu(problem: Problem) -> dict[str, Any]:
    """The verdict by the survey and at full shape, in memory that is reserved, and not while another process measures.

    Raises:
        BadInput: if the reference does not run.
    """
    import torch

    from egg_graph.evaluator.device.access import access_to
    from egg_graph.evaluator.judge.room import Room, does_not_fit

    access = access_to("gpu")
    room = Room(access, lambda digest: problem.cached_cases.clear())
    _ = problem.shapes  # found without a GPU

    def judged() -> dict[str, Any]:
        with access.computing():
            return _at_full_shape(problem, _surveyed(problem))

    try:
        told = room.work(problem, judged, nbytes=lambda plan: plan.least_bytes + plan.compulsory_bytes)
    except torch.OutOfMemoryError as error:
        told = {"verdict": "evaluable", "full_shape": does_not_fit(problem, error)}
    return {**told, "peak_bytes": torch.cuda.max_memory_reserved()}


def _surveyed(problem: Problem) -> dict[str, Any]:
    surveyed = problem.untimed_baseline
    return {
        "verdict": "unevaluable" if surveyed.unevaluable else "evaluable",
        "reason": surveyed.unevaluable,
        "weaknesses": list(surveyed.weaknesses),
        "families": list(surveyed.families),
        "dropped": problem.dropped_families,
    }


def _at_full_shape(problem: Problem, told: dict[str, Any]) -> dict[str, Any]:
    """What is told, and whether the reference's own shape has inputs and an answer that can be judged.

    Raises:
        torch.OutOfMemoryError: if memory does not hold them.
    """
    from egg_graph.evaluator.problem.case import Unevaluable

    if told["verdict"] != "evaluable":
        return told
    try:
        next(problem.full_cases())
    except Unevaluable as error:
        return {**told, "verdict": "unevaluable", "reason": str(error)}
    return {**told, "full_shape": JUDGED}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), sys.argv[2], cast(Precision, sys.argv[3]))))

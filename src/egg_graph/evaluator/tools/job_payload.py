"""Write a case into a job's folder, for a process that runs one forward under a profiler, a sanitizer or a trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from egg_graph.evaluator.host.environment import clean_environment
from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.wire import exchange

LARGEST_CASE = 1 << 30
"""Largest case that is written: inputs, weights and outputs together [bytes]."""


def write_case(problem: Problem, case: Case, folder: Path, **more: Any) -> dict[str, Any]:
    """Save a case's weights and inputs in the candidate's folder; returns the job's payload, which includes `more`."""
    with case.held():
        exchange.save(folder, "state", list(case.state.values()))
        exchange.save(folder, "inputs", case.inputs)
    return {
        **problem.construction(case),
        "state": list(case.state),
        "python_path": clean_environment()["PYTHONPATH"],
        **more,
    }


def why_too_large(case: Case) -> str:
    """Return why a case is too large to be written; empty if it is not."""
    if case.nbytes <= LARGEST_CASE:
        return ""
    return f"inputs and outputs of {case.nbytes >> 20} MiB are too large to hand to another process"

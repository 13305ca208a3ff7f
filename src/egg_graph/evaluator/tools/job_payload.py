"""Hand a case to a process that runs one forward under a profiler, a sanitizer or a trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from egg_graph.evaluator.host.environment import clean_environment
from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.wire import exchange

LARGEST = 1 << 30
"""Bytes of inputs, weights and outputs up to which a case is handed over."""


def hand_over(problem: Problem, case: Case, folder: Path, **more: Any) -> dict[str, Any]:
    """Leave a case's weights and inputs in the folder that holds the candidate; returns the job's payload."""
    exchange.save(folder, "state", list(case.state.values()))
    exchange.save(folder, "inputs", case.inputs)
    return {
        **problem.construction(case),
        "state": list(case.state),
        "python_path": clean_environment()["PYTHONPATH"],
        **more,
    }


def too_large(case: Case) -> str:
    """Why a case is not handed over; empty if it is."""
    if case.nbytes <= LARGEST:
        return ""
    return f"inputs and outputs of {case.nbytes >> 20} MiB are too large to hand to another process"

"""The folder of a job that watches one forward: the case that is written into it, and what is read from it after.

A candidate may have written any of what a program and its tool left there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from egg_graph.evaluator.host.environment import clean_environment
from egg_graph.evaluator.problem.case import Case
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.wire import exchange
from egg_graph.evaluator.wire.untrusted import open_file

LARGEST_CASE = 1 << 30
"""Largest case that is written: inputs, weights and outputs together [bytes]."""
STEP = re.compile(r"(?P<step>[a-z]{1,20}) (?P<seconds>\d{1,4}\.\d)")
"""Matches a line that `single_forward.tell_step` wrote."""
LONGEST_STEPS = 4000
"""How much of such a file is read [bytes]."""
LARGEST_REPORT = 4 << 20
"""How much of a tool's report is read [bytes]. A candidate may write into it, so it is read as data only."""


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
    nbytes = case.nbytes + case.weights_bytes
    if nbytes <= LARGEST_CASE:
        return ""
    return f"inputs, weights and outputs of {nbytes >> 20} MiB are too large to hand to another process"


def read_start(path: Path, most: int = LARGEST_REPORT) -> str:
    """Return the first `most` bytes of a file as text; empty if it is missing or no regular file."""
    try:
        file = open_file(path)
    except OSError:
        return ""
    with file:
        return file.read(most).decode(errors="replace")


def read_steps(path: Path) -> dict[str, float]:
    """Return when a watched program had done what, by its own word [s after its payload was written]."""
    lines = (STEP.fullmatch(line) for line in read_start(path, LONGEST_STEPS).splitlines())
    return {found["step"]: float(found["seconds"]) for found in lines if found}


def tell_steps(steps: Mapping[str, float]) -> str:
    """Return the steps in words."""
    return ", ".join(f"{step} after {seconds:.1f} s" for step, seconds in steps.items()) or "it did not get to start"

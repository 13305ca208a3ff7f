"""Read what a watched program and its tool left in the job's folder. The candidate may have written any of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from egg_graph.evaluator.wire.untrusted import open_file

STEP = re.compile(r"(?P<step>[a-z]{1,20}) (?P<seconds>\d{1,4}\.\d)")
"""Matches a line that `single_forward.tell_step` wrote."""
LONGEST_STEPS = 4000
"""How much of such a file is read [bytes]."""


def read_start(path: Path, most: int) -> str:
    """Return the first `most` bytes of a file as text; empty if it is missing or no regular file."""
    try:
        file = open_file(path)
    except OSError:
        return ""
    with file:
        return file.read(most).decode(errors="replace")


def read_steps(path: Path) -> dict[str, float]:
    """Return when a watched program had done what, by its own word [s after its start]."""
    lines = (STEP.fullmatch(line) for line in read_start(path, LONGEST_STEPS).splitlines())
    return {found["step"]: float(found["seconds"]) for found in lines if found}


def tell_steps(steps: Mapping[str, float]) -> str:
    """Return the steps in words."""
    return ", ".join(f"{step} after {seconds:.1f} s" for step, seconds in steps.items()) or "it did not get to start"

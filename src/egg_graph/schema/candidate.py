"""A kernel and its lineage."""

import hashlib
from functools import lru_cache
from typing import Literal

from egg_graph.schema.base import Value
from egg_graph.schema.program import program_digest

StageName = Literal["algorithmic_structure", "parallel_mapping", "tensor_tiling", "memory_optimization"]
Mode = Literal["seed", "optimize", "repair", "tune"]
Knob = int | float | bool | str
ConfigSpace = dict[StageName, dict[str, tuple[Knob, ...]]]
"""The literal `SPACE` of a candidate's source: stage -> knob that it may turn -> values that the knob may take."""


class Candidate(Value):
    """One kernel source with its lineage: who wrote it, in which stage and mode, from which parent, by which plan."""

    source: str
    author: str
    """Who wrote it: the team's name, `tuner`, `user`, ..."""
    stage: StageName
    mode: Mode
    parent: str | None = None
    """`id` of the candidate that it was made from."""
    plan: str = ""
    """What it was to change, in words."""
    config: dict[str, Knob] = {}
    """The literal `CONFIG` of the source: the value of each knob."""
    space: ConfigSpace = {}
    problem: str = ""
    """Why there is no usable source, such as an answer without code; empty where there is one."""
    mended: tuple[str, ...] = ()
    """What was mended in the answer that holds it, and which of its knobs were dropped and why, one line each."""

    @property
    def id(self) -> str:
        """SHA-256 of the source (and of the problem, where there is none), as 12 hex digits."""
        return _digest(self.source, self.problem)

    @property
    def program(self) -> str:
        """Equal for candidates whose sources differ in comments, docstrings and formatting alone."""
        return program_digest(self.source + "\0" + self.problem) if self.problem else program_digest(self.source)


@lru_cache(maxsize=256)
def _digest(source: str, problem: str) -> str:
    """Every step asks for the same few."""
    return hashlib.sha256(f"{source}\0{problem}".encode()).hexdigest()[:12]

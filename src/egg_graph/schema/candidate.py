"""A kernel and where it came from."""

import hashlib
from typing import Literal

from egg_graph.schema.base import Value

StageName = Literal["algorithmic_structure", "parallel_mapping", "tensor_tiling", "memory_optimization"]
Mode = Literal["seed", "optimize", "repair", "tune"]
Knob = int | float | bool | str
ConfigSpace = dict[StageName, dict[str, tuple[Knob, ...]]]
"""Per stage, the knobs that it may turn and the values each may take. The literal `SPACE` of a candidate's source."""


class Candidate(Value):
    """One kernel source with its lineage: who wrote it, in which stage and mode, from which parent, by which plan."""

    source: str
    author: str
    stage: StageName
    mode: Mode
    parent: str | None = None
    """`id` of the candidate it was made from."""
    plan: str = ""
    config: dict[str, Knob] = {}
    """The literal `CONFIG` of the source: the knobs as they stand."""
    space: ConfigSpace = {}
    problem: str = ""
    """Why there is no usable source (an answer without code, say); empty when there is one."""

    @property
    def id(self) -> str:
        """SHA-256 of the source (and of the problem, where there is none), as 12 hex digits."""
        return hashlib.sha256((self.source + "\0" + self.problem).encode()).hexdigest()[:12]

"""What one plan was measured to do on one GPU, as later runs on similar problems are told."""

import hashlib
import json
import re
import unicodedata
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from egg_graph.schema.answers import Category
from egg_graph.schema.base import Value
from egg_graph.schema.candidate import StageName
from egg_graph.schema.chain import Delta
from egg_graph.schema.task import Precision

PLAN_LENGTH = 240
"""Most characters of a plan that are kept."""
Bottleneck = Literal["launch", "dram", "compute"]
"""What sets the floor of a reference: launching a kernel at all, its traffic, or its matrix products."""
_ID = re.compile(r"[A-Za-z0-9_.-]{1,60}")


def tame(text: object, limit: int) -> str:
    """Make text that a model or a candidate wrote one short line of visible characters.

    Control and format characters (escape sequences, changes of direction, zero width), surrogates and backticks are
    removed; an ellipsis stands for what is beyond `limit` characters.
    """
    visible = "".join(" " if c.isspace() else c for c in str(text) if c.isspace() or unicodedata.category(c)[0] != "C")
    flat = " ".join(visible.replace("`", "").split())
    return flat if len(flat) <= limit else flat[: limit - 1].rstrip() + "…"


def _tamed(limit: int) -> BeforeValidator:
    return BeforeValidator(lambda text: tame(text, limit))


def _plain_ids(values: object) -> object:
    """Those that look like ids; an answer may name anything as a principle."""
    if not isinstance(values, list | tuple):
        return values
    return tuple(value for value in values if isinstance(value, str) and _ID.fullmatch(value))[:8]


Name = Annotated[str, _tamed(80)]
Milliseconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Ids = Annotated[tuple[str, ...], BeforeValidator(_plain_ids)]


class Lesson(Value):
    """A plan, and what a clock told of the kernel that came of it: a fact, never a forecast.

    Every text in it is short and tame, whoever wrote it and wherever it was kept meanwhile.
    """

    structure: Name
    """What the reference is made of: see `egg_graph.memory.structure_of`."""
    operators: Ids
    """The reference's operators that compute, each once, in alphabetical order."""
    bottleneck: Bottleneck
    floor_ms: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """Floor of the task (`Baseline.floor_ms`) [ms]."""
    precision: Precision
    problem: Name
    """Digest of the task without its name."""
    stage: StageName
    category: Category = "none"
    plan: Annotated[str, _tamed(PLAN_LENGTH)]
    """What was to change, in the words of whoever planned it. It is data, never an instruction."""
    principles: Ids = ()
    """Ids of the principles that led to the plan."""
    outcome: Literal["improved", "no_better"]
    """`improved`: the kernel replaced what it was measured against. `no_better`: it is right, and did not."""
    against: Name
    """What it was measured against: `PyTorch`, or `Candidate.program` of the best kernel before it."""
    kernel: Name
    """`Candidate.program` of the kernel."""
    before_ms: Milliseconds
    """Time of what it was measured against [ms]."""
    after_ms: Milliseconds
    """Time of the kernel [ms]."""
    deltas: tuple[Delta, ...] = Field(default=(), max_length=8)
    """Other quantities that it changed."""
    ratio: Milliseconds
    """Time of PyTorch over the kernel's, with its 95 % interval."""
    ratio_low: Annotated[float, Field(allow_inf_nan=False)]
    ratio_high: Annotated[float, Field(allow_inf_nan=False)]
    gpu: Name
    """Name of the GPU that timed it, as its driver tells it."""
    driver: Name
    torch: Name
    triton: Name
    evaluator: Name
    """Digest of the source of the evaluator that the run was made with."""
    measured: Name
    """Day of the measurement, UTC, ISO 8601."""

    @property
    def key(self) -> str:
        """Digest of what was compared on which GPU, as 16 hex digits: the same again is the same lesson."""
        parts = [self.problem, self.stage, self.against, self.kernel, self.gpu]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]

    @property
    def percent(self) -> float:
        """Relative change of the time [percent]."""
        return 100 * (self.after_ms / self.before_ms - 1)

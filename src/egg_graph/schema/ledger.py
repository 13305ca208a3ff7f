"""Where the wall time and the GPU memory of a run went: its calls, and the one place that adds them up."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from egg_graph.schema.answers import ROLES, Role, Usage
from egg_graph.schema.base import Value
from egg_graph.schema.candidate import StageName
from egg_graph.schema.spending import PART_WORDS, PARTS, Memory, Part

CallKind = Literal["baseline", "evaluation", "finalist", "sweep", "profile", "analyst", "coder", "debugger"]


class CallEntry(Value):
    """One call of the evaluator or of a role: a line of history.jsonl."""

    line: Literal["call"] = "call"
    call: CallKind
    begin: datetime
    """When it began (UTC)."""
    seconds: float
    """Wall time [s]."""
    parts: dict[Part, float]
    """Where `seconds` went [s]; they add up to it."""
    memory: Memory = Memory()
    stage: StageName | None = None
    attempt: int | None = None
    """Number of the attempt that it belongs to."""
    candidate: str = ""
    """`Candidate.id` of what was evaluated."""
    status: str = ""
    """What it came to; `failed` where the machine failed, `pending` where an evaluator elsewhere has not answered."""
    reason: str = ""
    """Why it failed, or why what was evaluated is not right, in one line."""
    usage: Usage = Usage()
    """What a role's answer cost."""

    @property
    def end(self) -> datetime:
        """When it was over (UTC)."""
        return self.begin + timedelta(seconds=self.seconds)


class Sitting(Value):
    """One process at work on the run: from its start or a resume to its end. A line of history.jsonl, written twice."""

    line: Literal["sitting"] = "sitting"
    begin: datetime
    """When it began (UTC)."""
    seconds: float | None = None
    """Wall time [s]; None in the line that is written first, and for good where the process was killed."""


Line = Annotated[CallEntry | Sitting, Field(discriminator="line")]
_LINE: TypeAdapter[CallEntry | Sitting] = TypeAdapter(Line)


def is_ledger_line(data: Mapping[str, Any]) -> bool:
    """Whether a line of history.jsonl is one of the ledger's; all others are attempts."""
    return "line" in data


def read_line(data: Any) -> CallEntry | Sitting:
    """Read a line of the ledger from JSON data. Raises `pydantic.ValidationError` if it is none."""
    return _LINE.validate_python(data)


class RoleCost(Value):
    """What the answers of one role cost in the whole run."""

    role: Role
    answers: int
    seconds: float
    """Wall time [s]."""
    usage: Usage


class Ledger(Value):
    """Where the time and the memory of a run went. Its parts add up to its seconds."""

    seconds: float
    """Wall time of all sittings [s]. Pauses between them are not counted."""
    parts: dict[Part, float]
    """Every part, 0 where there was none [s]. Calls side by side share the time that they have in common."""
    calls: dict[CallKind, int]
    """How many calls there were of each kind."""
    memory: Memory = Memory()
    sittings: int = 1
    """How often a process worked at the run: once, and again with every resume."""
    cut_off: int = 0
    """Sittings that were killed. What such a one did after the last call that it finished is in no sum."""
    roles: tuple[RoleCost, ...] = ()

    @classmethod
    def of(cls, lines: Sequence[CallEntry | Sitting]) -> "Ledger | None":
        """Add up the lines of a run, in the order in which they were written; None where there was no sitting."""
        sittings, cut_off = _closed(lines)
        if not sittings:
            return None
        calls = [line for line in lines if isinstance(line, CallEntry)]
        seconds = sum(sitting.seconds or 0.0 for sitting in sittings)
        parts: dict[Part, float] = dict.fromkeys(PARTS, 0.0)
        for call, share in zip(calls, _shares(calls), strict=True):
            for part, took in call.parts.items():
                parts[part] += took * share
        accounted = sum(parts.values())
        parts["other"] += max(0.0, seconds - accounted)
        memory = Memory()
        for call in calls:
            memory |= call.memory
        return cls(
            seconds=max(seconds, accounted),
            parts=parts,
            calls=_counted(calls),
            memory=memory,
            sittings=len(sittings),
            cut_off=cut_off,
            roles=_role_costs(calls),
        )

    @property
    def rows(self) -> tuple[tuple[str, float], ...]:
        """Name and seconds of every part, in their order."""
        return tuple((PART_WORDS[part], self.parts.get(part, 0.0)) for part in PARTS)

    @property
    def peaks(self) -> tuple[tuple[str, float | None], ...]:
        """Process and its peak GPU memory [byte]; None where it was not measured."""
        memory = self.memory
        return (
            ("judge", memory.judge_bytes),
            ("candidate", memory.candidate_bytes),
            ("baseline", memory.baseline_bytes),
        )


def whole_parts(told: Mapping[Part, float], seconds: float, rest: Part) -> dict[Part, float]:
    """Parts that add up to `seconds`: those told, scaled down where they are more, and the rest.

    An answer that was kept tells the seconds of when it was made; the call that found it took none of them.
    """
    total = sum(told.values())
    scale = 1.0 if total <= seconds else seconds / total
    parts = {part: took * scale for part, took in told.items() if took > 0}
    left = seconds - sum(parts.values())
    return {**parts, rest: parts.get(rest, 0.0) + left} if left > 0 else parts


def _closed(lines: Iterable[CallEntry | Sitting]) -> tuple[list[Sitting], int]:
    """Every sitting with its seconds, and how many were killed: those last to the end of their last call."""
    sittings: list[Sitting] = []
    cut_off, is_open = 0, False
    for line in lines:
        if isinstance(line, Sitting):
            cut_off += is_open and line.seconds is None
            sittings = [*sittings[:-1], line] if is_open and line.seconds is not None else [*sittings, line]
            is_open = line.seconds is None
        elif is_open:
            lasted = (line.end - sittings[-1].begin).total_seconds()
            sittings[-1] = sittings[-1].model_copy(update={"seconds": max(sittings[-1].seconds or 0.0, lasted)})
    return sittings, cut_off + is_open


def _shares(calls: Sequence[CallEntry]) -> list[float]:
    """The fraction of each call's time that counts as its own; calls side by side share what they have in common."""
    ordered = sorted(calls, key=lambda call: call.begin)
    if all(earlier.end <= later.begin for earlier, later in itertools.pairwise(ordered)):
        return [1.0] * len(calls)
    moments = sorted({moment for call in calls for moment in (call.begin, call.end)})
    own = [0.0] * len(calls)
    for begin, end in itertools.pairwise(moments):
        running = [n for n, call in enumerate(calls) if call.begin <= begin and end <= call.end]
        for n in running:
            own[n] += (end - begin).total_seconds() / len(running)
    spans = [(call.end - call.begin).total_seconds() for call in calls]
    return [mine / span if span > 0 else 1.0 for mine, span in zip(own, spans, strict=True)]


def _counted(calls: Iterable[CallEntry]) -> dict[CallKind, int]:
    count: dict[CallKind, int] = {}
    for call in calls:
        count[call.call] = count.get(call.call, 0) + 1
    return count


def _role_costs(calls: Sequence[CallEntry]) -> tuple[RoleCost, ...]:
    costs = []
    for role in ROLES:
        own = [call for call in calls if call.call == role]
        if own:
            usage = sum((call.usage for call in own), Usage())
            costs.append(RoleCost(role=role, answers=len(own), seconds=sum(c.seconds for c in own), usage=usage))
    return tuple(costs)

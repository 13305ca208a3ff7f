"""Exceptions by which a child process reports what is wrong with a candidate, or what cannot be tried."""

from typing import Any

from egg_graph.schema import Finding, FindingKind


class KernelFault(Exception):
    """The candidate did something wrong. It is never raised because of the evaluator itself.

    Args:
        kind: kind of the finding.
        message: what is wrong, in one sentence.
        where: kernel and line, argument, element or program.
        cure: how to mend it, if known.
    """

    def __init__(self, kind: FindingKind, message: str, where: str = "", cure: str = "") -> None:
        super().__init__(f"{message} ({where})" if where else message)
        self.kind = kind
        self.message = message
        self.where = where
        self.cure = cure

    def add_place(self, more: str) -> None:
        """Say more exactly where it was; nothing is added where `more` is empty."""
        self.where = ", ".join(filter(None, (self.where, more)))

    def finding(self) -> Finding:
        """Return the fault as a value that crosses process boundaries."""
        return Finding(kind=self.kind, message=self.message, where=self.where, cure=self.cure)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.kind, self.message, self.where, self.cure)


class Unfakeable(Exception):
    """The candidate cannot run on tensors without values (for example, it branches on one). This is no fault of it."""


class CutShort(Exception):
    """A forward failed on numbers that programs which were left out for time should have written. This is no fault of
    the candidate."""


def programs_not_resident(programs: int, why: str, where: str) -> KernelFault:
    """Return the fault of a cooperative launch of more programs than a GPU holds at once."""
    message = f"a cooperative launch of {programs} programs cannot start: {why}"
    return KernelFault("programs_not_resident", message, where, "Launch fewer programs, each with more of the work.")

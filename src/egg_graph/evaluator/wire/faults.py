"""The one exception by which a child process says what is wrong with a candidate."""

from typing import Any

from egg_graph.schema import Finding, FindingKind


class KernelFault(Exception):
    """The candidate did something wrong; never raised because of the evaluator itself.

    Args:
        kind: the schema's word for it.
        message: what is wrong, one sentence.
        where: kernel and line, argument, element, program.
        cure: how to mend it, where we know.
    """

    def __init__(self, kind: FindingKind, message: str, where: str = "", cure: str = "") -> None:
        super().__init__(f"{message} ({where})" if where else message)
        self.kind = kind
        self.message = message
        self.where = where
        self.cure = cure

    def finding(self) -> Finding:
        """The same as a value that crosses process boundaries."""
        return Finding(kind=self.kind, message=self.message, where=self.where, cure=self.cure)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.kind, self.message, self.where, self.cure)


class Unfakeable(Exception):
    """The candidate cannot run on shapes alone (it branches on values, say); nothing is proven against it."""

"""Room on the GPU: a judge works in memory that it has reserved; where that ran short, in more, and at last alone.

A reservation keeps room free among judges that keep to theirs. None is held to it: a library's workspace, and memory
that an allocator keeps in pieces, come on top.

What needs little memory for most of its time reserves it in parts (`GpuAccess.at_full_shape`): others work meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TypeVar

import torch

from egg_graph.block_values import set_in_block
from egg_graph.evaluator.device.access import MORE_ROOM_FOLLOWS, GpuAccess
from egg_graph.evaluator.problem.memory_plan import MemoryPlan
from egg_graph.evaluator.problem.problem import Problem
from egg_graph.evaluator.problem.reference import one_line

T = TypeVar("T")
AMPLE_PART = 0.6
"""Reserve this fraction of the GPU's memory where less did not suffice."""


class Room:
    """One judge's room.

    Args:
        access: to the GPU; None where there is none, and nothing to reserve.
        forget: frees what is kept of a task, by its digest.
    """

    def __init__(self, access: GpuAccess | None, forget: Callable[[str], None]) -> None:
        self.access, self.forget = access, forget

    def work(
        self,
        problem: Problem,
        work: Callable[[], T],
        *,
        nbytes: Callable[[MemoryPlan], float] = lambda plan: plan.usual_bytes,
        in_parts: bool = False,
        short: Callable[[T], bool] = lambda answer: False,
    ) -> T:
        """Work in reserved memory; if it ran short while others were at work, in more of it, and then with nobody else
        at work.

        Args:
            problem: the task.
            work: what to do; it raises torch.OutOfMemoryError where memory runs short, or answers so.
            nbytes: memory to reserve, from the task's plan [bytes].
            in_parts: whether the work reserves its memory itself, for its parts at full shape.
            short: whether an answer says that memory ran short.

        Raises:
            BadInput: if the reference fails at its own shape.
            torch.OutOfMemoryError: if memory runs short with nobody else at work.
        """
        if self.access is None:
            return work()
        plan = problem.memory_plan
        reserved = self._reserved_in_parts if in_parts else self._reserved
        wanted, may_hold_fp64 = nbytes(plan), plan.usual_bytes <= plan.capacity
        for room in (reserved(wanted), reserved(max(wanted, AMPLE_PART * plan.capacity))):
            self.access.crowded = False
            try:
                with room, set_in_block(MORE_ROOM_FOLLOWS, lambda: may_hold_fp64 and self._noticed_others()):
                    answer = work()
                if not (short(answer) and self._crowded):
                    return answer
            except torch.OutOfMemoryError:
                if not self._crowded:
                    raise
            self.forget(problem.task.digest)
        self.access.crowded = False
        with self._alone():
            return work()

    def _noticed_others(self) -> bool:
        """Whether others may hold memory, which is remembered: they may have let go of it when the work ends."""
        assert self.access is not None
        self.access.crowded |= self._crowded
        return self.access.crowded

    @property
    def _crowded(self) -> bool:
        """Whether others were seen on the GPU, or are at work now and may hold its memory."""
        assert self.access is not None
        others = self.access.reservations
        return self.access.crowded or (others is not None and others.others)

    def reserved(self, problem: Problem) -> AbstractContextManager[None]:
        """What the task usually takes, reserved for the block.

        Raises:
            BadInput: if the reference fails at its own shape.
        """
        return nullcontext() if self.access is None else self._reserved(problem.memory_plan.usual_bytes)

    @contextmanager
    def _reserved(self, nbytes: float) -> Iterator[None]:
        """Reserved memory for the block [bytes]; what PyTorch keeps for reuse goes back with it."""
        assert self.access is not None
        with self.access.reserved(nbytes):
            try:
                yield
            finally:
                self.access.give_back()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """The GPU alone for the block, when no other judge has memory reserved."""
        assert self.access is not None
        with self.access.alone_throughout():
            try:
                yield
            finally:
                self.access.give_back()

    @contextmanager
    def _reserved_in_parts(self, nbytes: float) -> Iterator[None]:
        """Let the block reserve memory whenever it is at full shape [bytes]; others know that it is at work."""
        assert self.access is not None
        with self.access.reserved(0.0):
            self.access.wanted = nbytes
            try:
                yield
            finally:
                self.access.wanted = 0.0
                self.access.give_back()


def does_not_fit(problem: Problem, error: torch.OutOfMemoryError) -> str:
    """Say how much memory judging a task takes; frees what is kept for reuse."""
    torch.cuda.empty_cache()
    return f"does not fit: {problem.memory_plan} ({one_line(error)})"

"""Programs of a cooperative launch, which may wait for each other in any order.

CUDA starts all programs of such a launch together or none of them. Here each has a thread of its own, and one of them
runs at a time: until it ends, or waits for what no program has written yet. The last program starts when all others
wait, so that who waits for one too few reads what is not there yet. The order is the same in every run.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any

from egg_graph.evaluator.interpreter.run_state import LaunchState
from egg_graph.evaluator.wire.faults import programs_not_resident

MOST_PROGRAMS = 5000
"""Programs that are interpreted together; a B200 holds 4736 at once, if each is one or two warps."""
STACK = 1 << 20
"""Stack of a program's thread [byte]."""
DEADLOCK = "waits in a loop for what no program writes: all that have not ended wait for each other"


class Stopped(BaseException):
    """Ends a program's thread after another program has failed. No `except Exception` of a kernel stops it."""


@dataclass(eq=False)
class CooperativeProgram:
    """One program of a cooperative launch."""

    linear: int
    program: tuple[int, int, int]
    thread: threading.Thread | None = None
    runs: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    pauses: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    acquired: bool = False
    loaded_values: list[Any] = field(default_factory=list)
    waits_since: int | None = None
    """The launch's `memory_changes` when it began to wait; None if it does not wait."""
    ended: bool = False
    error: BaseException | None = None


class CooperativeLaunch:
    """Interprets the programs of one launch in turns.

    Args:
        launch: the launch, whose current program changes with every turn.
        body: interprets the current program.
        enter: makes a program id the builder's.
    """

    def __init__(
        self, launch: LaunchState, body: Callable[[], Any], enter: Callable[[tuple[int, int, int]], None]
    ) -> None:
        self.launch, self.body, self.enter = launch, body, enter
        self.current: CooperativeProgram | None = None
        self.hopeless_since = -1
        """The launch's `memory_changes` when all programs were found waiting; -1 where they were not."""
        self.stopping = False

    def run(self, programs: list[CooperativeProgram]) -> Iterator[int]:
        """Interpret these programs; yield the linear index of each when it has ended.

        Raises:
            Exception: whatever a program raises; the others are stopped.
        """
        if len(programs) > MOST_PROGRAMS:
            why = "no GPU holds so many at once"
            raise programs_not_resident(len(programs), why, f"kernel {self.launch.kernel}")
        self.launch.wait_for_others = self._wait
        usual = threading.stack_size(STACK)
        waiting, last = deque(programs[:-1]), programs[-1:]
        try:
            while waiting or last:
                changes = self.launch.memory_changes
                if last and all(program.waits_since == changes for program in waiting):
                    waiting.appendleft(last.pop())
                program = waiting.popleft()
                all_wait = not last and all(other.waits_since == changes for other in (program, *waiting))
                self.hopeless_since = changes if all_wait else -1
                self._give_turn(program)
                if program.error is not None:
                    raise program.error
                if program.ended:
                    yield program.linear
                else:
                    waiting.append(program)
        finally:
            self.stopping = True
            for program in waiting:
                self._give_turn(program)
            threading.stack_size(usual)
            self.launch.wait_for_others = None

    def _give_turn(self, program: CooperativeProgram) -> None:
        """Let a program run until it waits or ends."""
        launch = self.launch
        if program.thread is None:
            if self.stopping:
                return
            context = copy_context()  # numpy keeps there how it answers overflow
            program.thread = threading.Thread(target=context.run, args=(self._whole, program), daemon=True)
            program.thread.start()
        self.current, program.waits_since = program, None
        launch.program, launch.linear = program.program, program.linear
        launch.acquired, launch.loaded_values = program.acquired, program.loaded_values
        launch.barrier()
        self.enter(program.program)
        program.runs.release()
        program.pauses.acquire()
        program.acquired, program.loaded_values = launch.acquired, launch.loaded_values

    def _whole(self, program: CooperativeProgram) -> None:
        program.runs.acquire()
        try:
            self.body()
        except BaseException as error:  # noqa: BLE001 - raised again where the launch was called
            program.error = error
        program.ended = True
        program.pauses.release()

    def _wait(self) -> bool:
        """Give the turn away, in the current program's thread. Return whether waiting on makes sense.

        Raises:
            Stopped: if another program has failed meanwhile.
        """
        program = self.current
        assert program is not None
        if self.hopeless_since == self.launch.memory_changes:
            return False
        program.waits_since = self.launch.memory_changes
        program.pauses.release()
        program.runs.acquire()
        if self.stopping:
            raise Stopped
        return True

"""The run under way: what is recorded while a candidate's forward executes under the guard."""

import math
import sys
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal

from egg_graph.evaluator.interpreter.address_space import AddressSpace
from egg_graph.evaluator.interpreter.trials import Trials
from egg_graph.evaluator.wire.launches import Launch
from egg_graph.schema import Finding, Hardware, Knob


@dataclass
class LaunchInProgress:
    """Counters of the kernel that is being interpreted."""

    kernel: str
    line: int
    program: tuple[int, int, int] = (0, 0, 0)
    linear: int = 0
    """Linear index of `program`, x fastest."""
    synchronised: bool = False
    """The program has executed an atomic, so later accesses may be ordered by it."""
    executed_atomics: int = 0
    """Atomic operations so far, each block counted once."""
    released: dict[int, int] = field(default_factory=dict)
    """1 + program -> `executed_atomics` at its last one: what it wrote before, others may find."""
    warps: int = 4
    span: int = 0
    """Number of the span between two barriers of one program that is under way; every program begins one."""
    shapes: dict[tuple[int, ...], int] = field(default_factory=dict)
    """Shapes of the blocks that were accessed, numbered."""
    load_bytes: int = 0
    store_bytes: int = 0
    atomics: int = 0
    dot_flops: dict[str, float] = field(default_factory=dict)
    loaded: list[Any] = field(default_factory=list)
    """Values that the program under way has loaded; kept until the launch is known to compute."""
    computes: bool = False
    """A program stored a number that it had not loaded."""
    wrapped_at: int = 0
    """Line where an int32 sum or product last wrapped around."""

    def meet(self) -> None:
        """All threads of the program have met: what each stored, the others see."""
        self.span += 1


@dataclass
class Session:
    """One run of one candidate, real (all programs, real memory) or fake (sampled programs, no memory)."""

    mode: Literal["real", "fake"]
    module_path: str
    memory: AddressSpace
    hardware: Hardware | None = None
    sample: int = 6
    budget_seconds: float = 5.0
    launches: list[Launch] = field(default_factory=list)
    races: dict[str, Finding] = field(default_factory=dict)
    launch: LaunchInProgress | None = None
    configs: tuple[dict[str, Knob], ...] = ()
    """Autotune configurations of the launch that follows."""
    trials: Trials | None = None
    """Tuning configurations that earlier calls ran; None where none is to be chosen."""
    chosen: dict[Any, Any] = field(default_factory=dict)
    """Configuration of each tuned kernel and key in this call."""
    accumulates: bool | None = None
    """Whether a launch updated what it found; None where nobody asks."""
    computing_launches: int = 0
    """Those that stored a number which they had not loaded."""
    silent: bool = False
    """Launched kernels do nothing."""
    greatest: dict[int, int] = field(default_factory=dict)
    """By memory, what loads give of integers of a known range (fake runs)."""
    fill: Any = None
    """Of a fake run: the generator of what loads give; None where they give zeros."""
    steps: int = 0
    """Accesses and turns of loops so far, wide accesses counted by their width: what an interpreter's time goes by."""
    whole_steps: int | None = None
    """After so many a real run interprets a sample of the programs that are left. (Not seconds: the same candidate
    shall be judged by the same programs again.)"""

    @property
    def fake(self) -> bool:
        return self.mode == "fake"

    def candidate_line(self) -> int:
        """Line of the candidate that is executing, 0 if none is on the stack."""
        frame = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename == self.module_path:
                return frame.f_lineno
            frame = frame.f_back  # type: ignore[assignment]
        return 0

    def line_of(self, trace: TracebackType | None) -> int:
        """Innermost line of the candidate in a traceback, 0 if there is none."""
        line = 0
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == self.module_path:
                line = trace.tb_lineno
            trace = trace.tb_next
        return line

    def where(self, *details: str) -> str:
        """`kernel name, line 12, ...` of the access under way."""
        assert self.launch is not None
        return ", ".join([f"kernel {self.launch.kernel}", f"line {self.candidate_line()}", *details])


class _Current:
    session: Session | None = None


def current() -> Session:
    """The run under way.

    Raises:
        RuntimeError: outside of `running`.
    """
    if _Current.session is None:
        raise RuntimeError("a kernel was launched outside of run_real and run_fake")
    return _Current.session


def is_running() -> bool:
    """Whether a run is under way."""
    return _Current.session is not None


def is_fake() -> bool:
    """Whether the run under way computes no values."""
    return _Current.session is not None and _Current.session.mode == "fake"


def threads_meet() -> None:
    """What is computed through shared memory makes the threads of a program wait for each other."""
    if _Current.session is not None and _Current.session.launch is not None:
        _Current.session.launch.meet()


def threads_meet_along(axis: int | None, shape: tuple[int, ...]) -> None:
    """The same for a reduction or scan. One along the last axis goes within warps where there are rows for each."""
    launch = _Current.session.launch if _Current.session is not None else None
    if launch is None:
        return
    within_warps = axis is not None and len(shape) > 1 and axis % len(shape) == len(shape) - 1
    if not within_warps or math.prod(shape[:-1]) < launch.warps:
        launch.meet()


def in_kernel() -> bool:
    """Whether a kernel is being interpreted."""
    return _Current.session is not None and _Current.session.launch is not None


class running:
    """Make a session the current one."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def __enter__(self) -> Session:
        _Current.session = self.session
        return self.session

    def __exit__(self, *exc: object) -> None:
        _Current.session = None

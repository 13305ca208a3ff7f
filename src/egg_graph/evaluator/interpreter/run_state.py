"""What is recorded while a candidate's forward executes under the guarded interpreter.

One run at a time is current in a process: the patched interpreter finds it by `current_run()`.
"""

import math
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal

from egg_graph.evaluator.interpreter.address_space import AddressSpace
from egg_graph.evaluator.wire.launches import Launch
from egg_graph.schema import Finding, Knob


@dataclass
class LaunchState:
    """Counters of the kernel launch that is being interpreted."""

    kernel: str
    program: tuple[int, int, int] = (0, 0, 0)
    """Program id that is being interpreted."""
    linear: int = 0
    """Linear index of `program`; x varies fastest."""
    acquired: bool = False
    """Whether this program has executed an atomic, so that its accesses may be ordered after other programs' writes."""
    atomic_clock: int = 0
    """Logical clock of the launch: the number of atomic operations so far. An operation on a block counts once."""
    released: dict[int, int] = field(default_factory=dict)
    """1 + program -> `atomic_clock` at its last atomic. Its writes before that time are visible to other programs."""
    num_warps: int = 4
    epoch: int = 0
    """Number of the interval between two barriers that is being interpreted. Each program starts a new one."""
    block_shapes: dict[tuple[int, ...], int] = field(default_factory=dict)
    """Shape of each block accessed so far -> its number."""
    load_bytes: int = 0
    store_bytes: int = 0
    atomics: int = 0
    """Elements updated atomically."""
    memory_changes: int = 0
    """Stores and atomics that changed memory."""
    incomplete: bool = False
    """Whether programs are left out, so that those interpreted may wait for them."""
    cooperative: bool = False
    """Whether all programs start together (`launch_cooperative_grid=True`), so that they may wait for each other."""
    wait_for_others: Callable[[], bool] | None = None
    """In a cooperative launch: lets other programs run, and tells whether one of them may end a wait."""
    dot_flops: dict[str, float] = field(default_factory=dict)
    """Operand type and precision (`fp32/tf32`) -> floating-point operations of `tl.dot`."""
    loaded_values: list[Any] = field(default_factory=list)
    """Values that the current program has loaded; collected only until `computes` is True."""
    computes: bool = False
    """Whether a program stored a number that it had not loaded."""
    unknown_integers: bool = False
    """Whether integers were loaded of which a fake run knows no values, as those that another kernel stores."""
    wrapped_line: int = 0
    """Line where int32 arithmetic last wrapped around."""

    def barrier(self) -> None:
        """Synchronise the program's threads: every thread now sees what the others stored."""
        self.epoch += 1


@dataclass
class AutotuneTrials:
    """Counts how often each autotune configuration ran, and chooses the next one."""

    seed: int
    runs: dict[str, dict[str, int]] = field(default_factory=dict)
    """Kernel -> configuration -> number of runs."""

    def choose(self, kernel: str, configs: list[Any]) -> Any:
        """Choose among the configurations that ran least often, in an order given by the seed, and count the run."""
        runs = self.runs.setdefault(kernel, {})
        for config in configs:
            runs.setdefault(str(config), 0)
        chosen = min(configs, key=lambda c: (runs[str(c)], zlib.crc32(f"{self.seed} {kernel} {c}".encode())))
        runs[str(chosen)] += 1
        return chosen

    def untried(self) -> int:
        """Count the configurations that never ran."""
        return sum(not times for runs in self.runs.values() for times in runs.values())


@dataclass
class RunState:
    """State of one run of one candidate: real (all programs, real memory) or fake (sampled programs, no memory)."""

    mode: Literal["real", "fake"]
    module_path: str
    memory: AddressSpace
    sample: int = 6
    """Programs to interpret per launch (fake run)."""
    budget_seconds: float = 5.0
    """Seconds per launch after which no further program is sampled (fake run)."""
    started: float = field(default_factory=time.perf_counter)
    """When the run began, on `time.perf_counter`."""
    launches: list[Launch] = field(default_factory=list)
    """Finished launches, in order."""
    counts: list[Any] = field(default_factory=list)
    """`ProgramCounts` of each finished launch (fake run)."""
    races: dict[str, Finding] = field(default_factory=dict)
    """Race findings by kernel, line, argument and kind of race: each is reported once."""
    launch: LaunchState | None = None
    """The launch being interpreted; None between launches."""
    repeated: Any = None
    """`RepeatedLaunches`: sampled launches that tell what later ones do (fake run); None where each is sampled."""
    configs: tuple[dict[str, Knob], ...] = ()
    """Autotune configurations of the next launch."""
    alternatives: list[Launch] = field(default_factory=list)
    """The next launch under the configurations that are not chosen."""
    only_records: bool = False
    """Whether launches are recorded in `alternatives`, and no program runs."""
    trials: AutotuneTrials | None = None
    """Autotune configurations that earlier calls ran; None takes the first configuration always."""
    chosen_configs: dict[Any, Any] = field(default_factory=dict)
    """Tuned kernel and tuning key -> configuration of this call."""
    accumulates: bool | None = None
    """Whether a launch updated memory that it also read; None where nobody asks."""
    computing_launches: int = 0
    """Number of launches that stored a number which they had not loaded."""
    silent: bool = False
    """Whether launched kernels do nothing."""
    known_by_storage: dict[int, Any] = field(default_factory=dict)
    """Storage key -> array of what loads of an input give: its integers as they lie in memory, or the largest that it
    may hold alone (fake run)."""
    max_loads: bool = False
    """Whether the integers of inputs are the largest that they may hold (fake run)."""
    load_rng: Any = None
    """Generator of the numbers that loads give (fake run); None: loads give zeros."""
    undefined_loads: set[str] = field(default_factory=set)
    """Loads that masked lanes off and gave no `other` for them: kernel and line."""
    zero_lanes: bool = False
    """Such lanes are 0, as in code compiled for NVIDIA's GPUs, and not poison."""
    steps: int = 0
    """Interpreter steps so far, a measure of time: one per loop iteration, memory access (more if it is wide)
    and call of a combine function."""
    on_program: Callable[[int], None] | None = None
    """Called after each program of a real run, with how many of its launch are done."""
    step_budget: int | None = None
    """Steps after which a real run interprets only a sample of the remaining programs; None: no limit.

    It counts steps, not seconds, so that the same candidate is always judged by the same programs."""

    @property
    def fake(self) -> bool:
        """Whether this is a fake run."""
        return self.mode == "fake"

    def candidate_line(self) -> int:
        """Find the candidate's innermost line on the call stack; 0 if it is not on the stack."""
        frame = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename == self.module_path:
                return frame.f_lineno
            frame = frame.f_back  # type: ignore[assignment]
        return 0

    def line_of(self, trace: TracebackType | None) -> int:
        """Find the candidate's innermost line in a traceback; 0 if it is not in the traceback."""
        line = 0
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == self.module_path:
                line = trace.tb_lineno
            trace = trace.tb_next
        return line

    def where(self, *details: str) -> str:
        """Locate the current access: `kernel name, line 12, ...`."""
        assert self.launch is not None
        return ", ".join([f"kernel {self.launch.kernel}", f"line {self.candidate_line()}", *details])


_current: RunState | None = None


@contextmanager
def running(run: RunState) -> Iterator[RunState]:
    """Make a run the current one."""
    global _current
    _current = run
    try:
        yield run
    finally:
        _current = None


def current_run() -> RunState:
    """Return the current run.

    Raises:
        RuntimeError: outside of `running`.
    """
    if _current is None:
        raise RuntimeError("a kernel was launched outside of a run")
    return _current


def current_launch() -> LaunchState | None:
    """Return the launch that is being interpreted, if there is one."""
    return _current.launch if _current is not None else None


def is_running() -> bool:
    """Whether there is a current run."""
    return _current is not None


def is_fake() -> bool:
    """Whether the current run is a fake one, which computes no values."""
    return _current is not None and _current.fake


def in_kernel() -> bool:
    """Whether a kernel is being interpreted."""
    return current_launch() is not None


def synchronise_threads() -> None:
    """Record the barrier of an operation that goes through shared memory."""
    if (launch := current_launch()) is not None:
        launch.barrier()


def synchronise_along(axis: int | None, shape: tuple[int, ...]) -> None:
    """Record the barrier of a reduction or scan of a block of `shape` along `axis` (None: along all axes).

    A reduction along the last axis stays within warps, and needs no barrier, if each warp has a row of its own.
    """
    launch = current_launch()
    if launch is None:
        return
    within_warps = axis is not None and len(shape) > 1 and axis % len(shape) == len(shape) - 1
    if not within_warps or math.prod(shape[:-1]) < launch.num_warps:
        launch.barrier()

"""All that an evaluator establishes about a candidate, and on what evidence."""

from typing import Literal

from egg_graph.schema.base import Value
from egg_graph.schema.candidate import Knob

Status = Literal[
    "compile_error",
    "runtime_error",
    "timeout",
    "out_of_memory",
    "incorrect",
    "invalid",
    "unevaluable",
    "infra_error",
    "correct",
    "slower",
    "inconclusive",
    "faster",
]
"""`invalid` is cheating or a broken contract; `unevaluable` blames the problem; `correct` was not timed."""

USABLE: frozenset[Status] = frozenset({"correct", "slower", "inconclusive", "faster"})
"""Statuses of a kernel that may replace the reference as far as right answers go."""

FindingKind = Literal[
    # before running
    "no_code", "syntax_error", "missing_entry_point", "forbidden_construct", "forbidden_import", "test_code",
    "no_triton_kernel", "unsupported_in_kernel",
    # compiling for the target
    "kernel_compile_error", "shared_memory_exceeded", "register_spill",
    # running
    "exception", "crashed", "exited", "timeout", "memory_exceeded", "out_of_bounds", "write_race", "device_assert",
    "too_many_processes", "uninitialised_read",
    # the answer
    "unwritten_output", "non_finite", "wrong_values", "precision_loss", "tf32_truncation", "wrong_shape", "wrong_dtype",
    "wrong_structure", "wrong_device", "wrong_strides", "aliased_output", "input_mutated", "parameter_mutated",
    "specialised_to_shape", "not_deterministic", "weights_mismatch", "library_call",
    # how the answer came about
    "replayed_output", "late_output", "clock_disagreement", "below_roofline", "not_causal", "library_patched",
    # the problem or the machine
    "degenerate_problem", "stochastic_problem", "reference_failed", "infrastructure",
]  # fmt: skip


class Finding(Value):
    """One thing the evaluator found, in words a debugger can act on."""

    kind: FindingKind
    message: str
    """What is wrong."""
    where: str = ""
    """Kernel and line, argument, output leaf or shape."""
    cure: str = ""
    """How to mend it, where the evaluator knows."""


class Check(Value):
    """One comparison of candidate and reference."""

    name: str
    """`shrunk`, `awkward`, `full`, ..."""
    shapes: dict[str, tuple[int, ...]] = {}
    seed: int
    error: float
    """Relative L2 error against the fp64 reference, the worst of all output leaves."""
    budget: float
    """The largest error allowed, calibrated from PyTorch's own at the declared precision."""
    max_abs: float
    passed: bool
    machine: str
    """`interpreter`, or the name of the GPU."""
    family: str = "as given"
    """Of the inputs: `as given` is get_inputs' own distribution; `negated`, `tiny`, `large`, ... are made from it."""


class Tolerance(Value):
    """KernelBench's own criterion, told beside ours for comparison and never the verdict: `torch.allclose` with
    atol = rtol against PyTorch's answer at the declared precision (its eval.py, 2026-03)."""

    tolerance: float
    """1e-4 for float32, 1e-2 for float16 and bfloat16."""
    passed: bool
    max_difference: float


class Integrity(Value):
    """How the answer came about: what one forward launched and called."""

    kernels: tuple[str, ...] = ()
    """Names of the candidate's own JIT functions that ran, each once."""
    operators: tuple[str, ...] = ()
    """ATen operators of one forward, each once, in order of first use; views and allocations included."""
    computing: tuple[str, ...] = ()
    """Those of them that compute: library work beside Triton."""
    foreign_kernels: tuple[str, ...] = ()
    """GPU kernels that ran and are none of the candidate's JIT functions (a trace of the device)."""
    causal: bool | None = None
    """Whether the answer changes when the candidate's Triton kernels do nothing; None where that was not tried."""


class KernelResources(Value):
    """What the compiler made of one kernel launch, ahead of time, for one target."""

    kernel: str
    target: str
    grid: tuple[int, ...]
    num_warps: int
    num_stages: int
    registers: int | None = None
    """Per thread."""
    spill_bytes: int = 0
    """Stack frame that holds spilled registers [byte per thread]."""
    shared_bytes: int = 0
    shared_limit: int = 0
    occupancy: float | None = None
    """Theoretical: resident warps over the most a multiprocessor can hold."""
    tensor_core_instructions: dict[str, int] = {}
    memory_instructions: dict[str, int] = {}
    """Instructions by width, e.g. {"LDG.128": 4, "STG.32": 8}."""
    instructions: int = 0
    compile_seconds: float = 0.0

    @property
    def fits(self) -> bool:
        return self.shared_bytes <= self.shared_limit


class Bound(Value):
    """Roofline lower bound of a candidate at full shape. It bounds time from below; it is never a speed."""

    dram_bytes: float
    """Compulsory traffic of all its launches: every tensor touched, once per launch."""
    requested_bytes: float
    """Bytes its loads and stores ask for, before caches."""
    dot_flops: float
    milliseconds: float
    limiter: Literal["dram", "compute", "launch"]
    launches: int
    """Kernels that one forward launches, library calls included."""


class Clock(Value):
    """One clock's word on a call of the candidate."""

    name: Literal["events", "device", "host"]
    """CUDA events, the GPU's own nanosecond counter, and the judge process's wall clock."""
    milliseconds: float
    """Median."""
    noise_ms: float = 0.0
    """What this clock cannot tell apart."""


class GpuState(Value):
    """What the driver says of the GPU at one moment. None where it does not tell."""

    sm_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    throttle_reasons: tuple[str, ...] = ()
    utilisation_percent: float | None = None
    """By others, before the measurement."""
    other_processes: int | None = None


class Confirmation(Value):
    """A finalist measured once more, in fresh processes."""

    ratio: float
    ratio_low: float
    ratio_high: float
    pairs: int
    agrees: bool
    """Its interval and the first one's do not contradict each other."""


class Timing(Value):
    """Candidate against PyTorch at equal precision, interleaved. Medians, in milliseconds."""

    candidate_ms: float
    eager_ms: float
    compile_ms: float | None = None
    """`torch.compile`, default mode; None where it failed, and `notes` says why."""
    eager_fp32_ms: float | None = None
    """Eager with TF32 off, told for comparison with papers."""
    baseline: Literal["eager", "compile"]
    """The faster of the two; ratio and verdict are against it."""
    ratio: float
    """Baseline over candidate: above 1 is a speedup."""
    ratio_low: float
    ratio_high: float
    """Bootstrap 95 % interval of the median ratio."""
    pairs: int
    block: int = 1
    """Pairs measured in one turn; the interval resamples whole turns."""
    candidate_calls_ms: tuple[float, ...] = ()
    """Every recorded call, in the order of measurement; the n-th of the baseline belongs to it."""
    baseline_calls_ms: tuple[float, ...] = ()
    clocks: tuple[Clock, ...] = ()
    checked_calls: int = 0
    """Timed calls whose answer was compared with the reference's, each on inputs of its own."""
    before: GpuState | None = None
    after: GpuState | None = None
    confirmation: Confirmation | None = None
    notes: tuple[str, ...] = ()


class Metric(Value):
    """One profiling metric; `missing` says why where there is no value."""

    value: float | None = None
    unit: str = ""
    missing: str = ""


class Profile(Value):
    """Profiling metrics, on the evidence named by `source`."""

    source: Literal["ncu", "cupti", "compiled", "none"]
    metrics: dict[str, Metric] = {}
    kernel: str = ""
    """Whose metrics these are: the kernel of the candidate with the largest share of GPU time."""
    shares: dict[str, float] = {}
    """Part of the forward's GPU time, by kernel; its own and others'."""
    why: str = ""
    """Why no better source was used."""


class Rung(Value):
    """One rung of the evaluator's ladder."""

    name: str
    outcome: Literal["passed", "failed", "skipped"]
    statement: str
    """What passing proved, why it failed, or why it was skipped."""
    seconds: float = 0.0


class Environment(Value):
    """Where the evidence was gathered."""

    machine: str
    gpu: str | None = None
    driver: str | None = None
    cuda: str | None = None
    torch: str = ""
    triton: str = ""
    python: str = ""
    isolation: tuple[str, ...] = ()
    """What confines a candidate's process here."""
    not_isolated: tuple[str, ...] = ()
    """What does not, and why."""


class Evaluation(Value):
    """May this candidate replace this reference, and what is the evidence?"""

    candidate: str
    """`Candidate.id`"""
    task: str
    """`KernelTask.digest`"""
    status: Status
    reason: str
    """One line."""
    findings: tuple[Finding, ...] = ()
    rungs: tuple[Rung, ...] = ()
    checks: tuple[Check, ...] = ()
    resources: tuple[KernelResources, ...] = ()
    bound: Bound | None = None
    timing: Timing | None = None
    triton_share: float | None = None
    """Part of GPU time (of DRAM bytes without a GPU) spent in the candidate's own Triton kernels."""
    profile: Profile = Profile(source="none")
    environment: Environment | None = None
    seed: int | None = None
    """Root of every seed of this evaluation: secret until the verdict, enough to repeat it."""
    kernelbench: Tolerance | None = None
    integrity: Integrity | None = None
    log: str = ""
    """Tail of what the candidate printed or raised; data, never an instruction."""
    seconds: float = 0.0

    @property
    def usable(self) -> bool:
        return self.status in USABLE

    @property
    def proven(self) -> tuple[str, ...]:
        return tuple(rung.statement for rung in self.rungs if rung.outcome == "passed")

    @property
    def not_proven(self) -> tuple[str, ...]:
        return tuple(rung.statement for rung in self.rungs if rung.outcome != "passed")

    @property
    def merit(self) -> tuple[float, ...]:
        """Sort key, smaller is better: measured time where there is one, else the lower bound and what was spilled.

        Timed kernels come before untimed ones (they are the better proven). Without a GPU the key is no speed:
        occupancy, tile shapes and traffic to the caches are left out, because nothing could tell whether they pay.
        """
        if not self.usable:
            return (2.0,)
        if self.timing is not None:
            return (0.0, self.timing.candidate_ms)
        if self.bound is None:
            return (1.0, float("inf"))
        return (1.0, _rounded(self.bound.milliseconds), float(sum(r.spill_bytes for r in self.resources)))


def _rounded(x: float) -> float:
    """Two significant digits, so that noise in a count does not decide."""
    return float(f"{x:.2g}")


class Trial(Value):
    """One configuration of a sweep: cheaper evidence than an Evaluation, enough to rank."""

    config: dict[str, Knob]
    status: Status
    reason: str = ""
    milliseconds: float | None = None
    """Median, where a GPU timed it."""
    merit: tuple[float, ...] = (2.0,)
    """Same order as `Evaluation.merit`."""


class Baseline(Value):
    """The reference itself, established once before any candidate."""

    task: str
    operators: tuple[str, ...] = ()
    """ATen operators of one forward, in order."""
    inputs: dict[str, str] = {}
    """`name -> "float32[16, 1024]"` at full shape."""
    outputs: dict[str, str] = {}
    parameters: int = 0
    compulsory_bytes: float = 0.0
    """Inputs, parameters and outputs, each moved once."""
    eager_bytes: float = 0.0
    """What eager moves, every intermediate written and read."""
    flops: float = 0.0
    floor_ms: float = 0.0
    """max(compulsory_bytes / DRAM bandwidth, flops / peak): no kernel can run faster on the target."""
    shrunk_shapes: tuple[dict[str, int], ...] = ()
    """The smaller shapes used where the full one cannot run; the second is awkward (odd or prime)."""
    eager_ms: float | None = None
    compile_ms: float | None = None
    eager_fp32_ms: float | None = None
    environment: Environment | None = None
    families: tuple[str, ...] = ()
    """Input families that this problem can be judged on, `as given` first."""
    weaknesses: tuple[str, ...] = ()
    """What an answer without computing would get away with at a common fixed tolerance; our budgets are tighter."""
    unevaluable: str = ""
    """Why no candidate can be judged against this reference; empty when it can."""

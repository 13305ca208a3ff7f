"""All that an evaluator establishes about a candidate, and the evidence for it."""

from typing import Literal

from pydantic import Field

from egg_graph.schema.base import Value
from egg_graph.schema.candidate import Knob
from egg_graph.schema.spending import Spending
from egg_graph.schema.tuned import TunedBaseline

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
"""`invalid`: the candidate cheats or breaks its contract. `unevaluable`: the reference itself cannot be judged.
`infra_error`: the machine failed. `correct`: right, and not timed."""

TrialStatus = Status | Literal["pruned"]
"""How a configuration of a sweep fared. `pruned`: not run; the reason names the resource that speaks against it, or the
time that there was not."""
USABLE: frozenset[TrialStatus] = frozenset({"correct", "slower", "inconclusive", "faster"})
"""Statuses of a kernel whose answers are right, so that it may replace the reference."""
SMALL_SPILL = 64
"""Spills of a kernel up to this size rank nothing without a clock [byte per thread]: 16 registers, which the fastest
tiles may well give up outside of their inner loop."""

FindingKind = Literal[
    # before running
    "no_code", "syntax_error", "missing_entry_point", "forbidden_construct", "forbidden_import", "test_code",
    "no_triton_kernel", "unsupported_in_kernel",
    # compiling for the target
    "kernel_compile_error", "shared_memory_exceeded", "programs_not_resident", "register_spill",
    # running
    "exception", "crashed", "exited", "timeout", "memory_exceeded", "out_of_bounds", "write_race", "device_assert",
    "too_many_processes", "uninitialised_read",
    # the answer
    "unwritten_output", "non_finite", "wrong_values", "precision_loss", "tf32_truncation", "wrong_shape", "wrong_dtype",
    "wrong_structure", "wrong_device", "wrong_strides", "aliased_output", "input_mutated", "parameter_mutated",
    "specialised_to_shape", "not_deterministic", "weights_mismatch", "library_call",
    # how the answer came about
    "replayed_output", "late_output", "clock_disagreement", "below_roofline", "not_causal", "library_patched",
    # beyond the task's domain
    "not_preserved",
    # the problem or the machine
    "degenerate_problem", "stochastic_problem", "reference_failed", "infrastructure",
]  # fmt: skip


class Finding(Value):
    """One thing that the evaluator found wrong, in words that a debugger can act on."""

    kind: FindingKind
    message: str
    """What is wrong."""
    where: str = ""
    """Kernel and line, argument, output or shape."""
    cure: str = ""
    """How to mend it; empty where the evaluator does not know."""


class Check(Value):
    """One comparison of the candidate's outputs with the reference's."""

    name: str
    """Kind of check: `shrunk`, `awkward`, `full`, ..."""
    shapes: dict[str, tuple[int, ...]] = {}
    """Shape of each input, by its name."""
    seed: int
    """Seed that the inputs were drawn with."""
    error: float
    """Relative L2 error against the fp64 reference, the largest of all outputs (no unit)."""
    budget: float
    """Largest error allowed, calibrated from PyTorch's own error at the declared precision (no unit)."""
    pytorch_error: float | None = None
    """PyTorch's own relative error at the declared precision (no unit); None where it was not recorded."""
    max_abs: float
    """Largest absolute difference from the expected outputs."""
    passed: bool
    machine: str
    """Where the candidate ran: `interpreter`, or the name of the GPU."""
    family: str = "as given"
    """Distribution of the inputs: `as given` by get_inputs, or made from it: `negated`, `tiny`, `large`, ..."""

    @property
    def label(self) -> str:
        """The check's name, with its inputs where they are not as given: `shrunk, inputs negated`."""
        return self.name if self.family == "as given" else f"{self.name}, inputs {self.family}"


class Tolerance(Value):
    """KernelBench's own criterion, shown for comparison; it never decides the verdict.

    `torch.allclose` with atol = rtol against PyTorch's answer at the declared precision (KernelBench eval.py, 2026-03).
    """

    tolerance: float
    """atol and rtol: 1e-4 for float32, 1e-2 for float16 and bfloat16."""
    passed: bool
    max_difference: float
    """Largest absolute difference from PyTorch's answer."""


class Integrity(Value):
    """What one forward of the candidate launched and called."""

    kernels: tuple[str, ...] = ()
    """Names of the candidate's own JIT functions that ran, each once."""
    operators: tuple[str, ...] = ()
    """ATen operators that were called, each once, in order of first use; views and allocations included."""
    computing: tuple[str, ...] = ()
    """The operators among them that compute: library work beside Triton."""
    foreign_kernels: tuple[str, ...] = ()
    """GPU kernels that ran and are none of the candidate's JIT functions, from a trace of the device."""
    causal: bool | None = None
    """Whether the answer changes when the candidate's Triton kernels do nothing; None where that was not tried."""


class KernelResources(Value):
    """Resources of one kernel launch, as compiled ahead of time for one target."""

    kernel: str
    target: str
    """Compilation target: `sm_90`, `gfx942`, ..."""
    grid: tuple[int, ...]
    """Programs per axis."""
    num_warps: int
    """Warps per program."""
    num_stages: int
    """Depth of software pipelining."""
    constexprs: dict[str, Knob] = {}
    """Constants that the kernel was compiled with, by parameter: {"BLOCK": 1024}."""
    registers: int | None = None
    """Registers per thread."""
    spill_bytes: int = 0
    """Stack frame that holds spilled registers [byte per thread]."""
    shared_bytes: int = 0
    """Shared memory per program [byte]."""
    shared_limit: int = 0
    """Largest shared memory per program on the target [byte]."""
    occupancy: float | None = None
    """Theoretical occupancy: resident warps over the most that a multiprocessor can hold, 0 to 1."""
    tensor_core_instructions: dict[str, int] = {}
    """Tensor core instructions in the binary, by name."""
    memory_instructions: dict[str, int] = {}
    """Memory instructions in the binary, by name and width in bits: {"LDG.128": 4, "STG.32": 8}."""
    instructions: int = 0
    """Instructions in the binary."""
    undefined_lanes: bool | None = None
    """Whether the code leaves lanes that a load masks off undefined, neither 0 nor `other`; None if not known."""
    compile_seconds: float = 0.0
    """Duration of the compilation [s]."""

    @property
    def fits(self) -> bool:
        """True where the shared memory stays within the target's limit."""
        return self.shared_bytes <= self.shared_limit


class Bound(Value):
    """Roofline lower bound of a candidate's time at full shape. It is never a speed."""

    dram_bytes: float
    """Compulsory DRAM traffic: each launch moves every tensor that it touches once [byte]."""
    requested_bytes: float
    """Traffic that the loads and stores ask for, before caches [byte]."""
    dot_flops: float
    """Operations in matrix products [flop]."""
    milliseconds: float
    """No run on the target can take less than this [ms]."""
    limiter: Literal["dram", "compute", "launch"]
    """The resource that sets the bound."""
    launches: int
    """Kernels that one forward launches, library calls included."""
    floor_ms: float = 0.0
    """The task's own floor (`Baseline.floor_ms`), below which no bound counts when kernels are ranked [ms]."""


class Clock(Value):
    """How long a call took, by one clock."""

    name: Literal["events", "device", "host"]
    """CUDA events, the GPU's own nanosecond counter, or the judge process's wall clock."""
    milliseconds: float
    """Median duration [ms]."""
    noise_ms: float = 0.0
    """Spread of the repeats, or the clock's resolution where that is larger [ms]."""


class GpuState(Value):
    """The GPU's state at one moment, as its driver reports it. None where it does not report."""

    sm_clock_mhz: float | None = None
    """Clock of the multiprocessors [MHz]."""
    memory_clock_mhz: float | None = None
    """Clock of the memory [MHz]."""
    temperature_c: float | None = None
    """Temperature [°C]."""
    power_w: float | None = None
    """Power [W]."""
    throttle_reasons: tuple[str, ...] = ()
    """Why the driver holds the clocks down."""
    utilisation_percent: float | None = None
    """Utilisation by other processes before the measurement [%]."""
    other_processes: int | None = None
    """Count of other processes on the GPU."""


class Confirmation(Value):
    """A second measurement of a finalist, in fresh processes."""

    ratio: float
    """Median of baseline time over candidate time."""
    ratio_low: float
    """Lower end of the bootstrap 95 % interval of `ratio`."""
    ratio_high: float
    """Upper end of the interval."""
    pairs: int
    """Pairs of calls, one of the candidate and one of the baseline."""
    agrees: bool
    """Whether this interval and the first measurement's are compatible."""


RESOLUTION = 0.005
"""Smallest relative difference that counts: identical work in two processes measures the same to within this."""


class Timing(Value):
    """Candidate against PyTorch at equal precision, their calls interleaved. Times are medians."""

    candidate_ms: float
    """Time of the candidate [ms]."""
    eager_ms: float
    """Time of eager PyTorch [ms]."""
    compile_ms: float | None = None
    """Time of `torch.compile` in its default mode [ms]; None where it failed, and `notes` says why."""
    eager_fp32_ms: float | None = None
    """Time of eager PyTorch with TF32 off [ms], for comparison with papers."""
    baseline: Literal["eager", "compile"]
    """The faster of the two at equal precision. Ratio and verdict are against it."""
    clock: Literal["events", "device", "host"] = "events"
    """The clock within which times and ratio of both sides are told. It is another one than CUDA events, which tell
    device time, where these understate the candidate."""
    candidate_host_ms: float | None = None
    """Time of the candidate on the host, launches included [ms]: what a user without CUDA graphs sees. It decides
    nothing."""
    baseline_host_ms: float | None = None
    """Time of the baseline on the host, measured alike [ms]."""
    ratio: float
    """Median of baseline time over candidate time; above 1 is a speedup."""
    ratio_low: float
    """Lower end of the bootstrap 95 % interval of `ratio`."""
    ratio_high: float
    """Upper end of the interval."""
    pairs: int
    """Pairs of calls, one of the candidate and one of the baseline."""
    block: int = 1
    """Pairs measured in one turn. The bootstrap resamples whole turns."""
    candidate_calls_ms: tuple[float, ...] = ()
    """Every recorded call of the candidate, in the order of measurement [ms]."""
    baseline_calls_ms: tuple[float, ...] = ()
    """Every recorded call of the baseline [ms]; its n-th call belongs to the candidate's n-th."""
    clocks: tuple[Clock, ...] = ()
    """The candidate's time by each clock, so that they can be compared."""
    baseline_clocks: tuple[Clock, ...] = ()
    """The baseline's time by each clock that was read on it; by the host's only where the candidate's disagree."""
    checked_calls: int = 0
    """Timed calls whose answer was compared with the reference's, each on inputs of its own."""
    before: GpuState | None = None
    """State of the GPU before the measurement."""
    after: GpuState | None = None
    """State of the GPU after the measurement."""
    confirmation: Confirmation | None = None
    notes: tuple[str, ...] = ()

    @property
    def may_be_faster(self) -> bool:
        """Whether the interval leaves it open that the candidate is faster; so does a clock that understates it."""
        return self.clock != "events" or self.ratio_high > 1 + RESOLUTION


class Metric(Value):
    """One profiling metric."""

    value: float | None = None
    unit: str = ""
    missing: str = ""
    """Why there is no value; empty where there is one."""


class Profile(Value):
    """Profiling metrics of one kernel."""

    source: Literal["ncu", "cupti", "compiled", "none"]
    """Where the metrics come from: Nsight Compute, CUPTI, the compiled binary, or nowhere."""
    metrics: dict[str, Metric] = Field(default_factory=dict)
    kernel: str = ""
    """Kernel that the metrics describe: the candidate's kernel with the largest share of GPU time."""
    shares: dict[str, float] = Field(default_factory=dict)
    """Share of the forward's GPU time, 0 to 1, by kernel; library kernels included."""
    why: str = ""
    """Why no better source was used."""


class Rung(Value):
    """One rung of the evaluator's ladder."""

    name: str
    outcome: Literal["passed", "failed", "skipped"]
    statement: str
    """What passing proved, why it failed, or why it was skipped."""
    seconds: float = 0.0
    """Duration [s]."""


class Environment(Value):
    """The machine and the software that the evidence was gathered with."""

    machine: str
    """Operating system, processor and count of cores."""
    gpu: str | None = None
    """Name of the GPU; None where there was none."""
    driver: str | None = None
    """Version of the GPU's driver."""
    cuda: str | None = None
    """Version of CUDA that torch was built with."""
    torch: str = ""
    triton: str = ""
    python: str = ""
    isolation: tuple[str, ...] = ()
    """What confines a candidate's process on this machine."""
    not_isolated: tuple[str, ...] = ()
    """What does not confine it, and why."""


class Evaluation(Value):
    """May this candidate replace this reference, and what is the evidence?"""

    candidate: str
    """`Candidate.id`"""
    task: str
    """`KernelTask.digest`"""
    status: Status
    reason: str
    """One line that explains the status."""
    findings: tuple[Finding, ...] = ()
    not_preserved: tuple[str, ...] = ()
    """What the reference keeps beyond the task's domain and the kernel does not: `infinities (where, and how)`."""
    rungs: tuple[Rung, ...] = ()
    checks: tuple[Check, ...] = ()
    resources: tuple[KernelResources, ...] = ()
    """Resources of each compiled launch; empty where nothing was compiled ahead of time."""
    bound: Bound | None = None
    timing: Timing | None = None
    """None where the candidate was not timed on a GPU."""
    triton_share: float | None = None
    """Share of GPU time spent in the candidate's own Triton kernels, 0 to 1; without a GPU, share of DRAM bytes."""
    profile: Profile = Field(default_factory=lambda: Profile(source="none"))
    environment: Environment | None = None
    seed: int | None = None
    """Root of every seed of this evaluation. It is secret until the verdict, and enough to repeat it."""
    kernelbench: Tolerance | None = None
    """The verdict of KernelBench's criterion; None where it was not computed."""
    integrity: Integrity | None = None
    log: str = ""
    """Last characters of what the candidate printed or raised. It is data, never an instruction."""
    seconds: float = 0.0
    """Duration of the evaluation [s]."""
    spent: Spending = Field(default_factory=Spending)
    """Where the time of the call went, and its peak memory; empty where the evaluator does not tell."""

    @property
    def usable(self) -> bool:
        """True where the answers are right, so that the kernel may replace the reference."""
        return self.status in USABLE

    @property
    def proven(self) -> tuple[str, ...]:
        """Statements of the rungs that passed."""
        return tuple(rung.statement for rung in self.rungs if rung.outcome == "passed")

    @property
    def not_proven(self) -> tuple[str, ...]:
        """Statements of the rungs that failed or were skipped."""
        return tuple(rung.statement for rung in self.rungs if rung.outcome != "passed")

    @property
    def merit(self) -> tuple[float, ...]:
        """Sort key, smaller is better: the measured time, else the lower bound [ms] and the spilled bytes.

        Timed kernels come before untimed ones, because more is proven about them. Without a clock the key is no speed.
        A bound below the task's floor counts as the floor: nothing shows whether such a kernel needs less than all
        inputs and products, or whether work was missed that only other programs do. Small spills count as none, and
        occupancy, tile shapes and cache traffic are left out, because only a measurement shows whether they cost.
        """
        if not self.usable:
            return (2.0,)
        if self.timing is not None:
            return (0.0, self.timing.candidate_ms)
        if self.bound is None:
            return (1.0, float("inf"))
        spilled = sum(r.spill_bytes for r in self.resources if r.spill_bytes > SMALL_SPILL)
        return (1.0, _rounded(max(self.bound.milliseconds, self.bound.floor_ms)), float(spilled))

    @property
    def untimed_at_its_best(self) -> bool:
        """Whether no untimed kernel could have a better `merit`: the bound is the task's floor, and nothing spills."""
        return self.bound is not None and self.merit == (1.0, _rounded(self.bound.floor_ms), 0.0)


def _rounded(x: float) -> float:
    """Round to two significant digits, so that noise in a count does not decide."""
    return float(f"{x:.2g}")


class Trial(Value):
    """One configuration of a sweep, with cheaper evidence than an Evaluation: enough to rank it."""

    config: dict[str, Knob]
    status: TrialStatus
    reason: str = ""
    milliseconds: float | None = None
    """Median time [ms]; None where no GPU timed it."""
    resources: tuple[KernelResources, ...] = ()
    """Resources of its compiled kernels; empty where nothing tells them."""
    merit: tuple[float, ...] = (2.0,)
    """Sort key, in the same order as `Evaluation.merit`. A configuration that left the sweep before its last round of
    timing (0.5) comes behind those that stayed (0.0)."""
    spent: Spending = Field(default_factory=Spending)
    """Its part of what the sweep spent, whose configurations are made ready side by side: the same for each of them."""


class Baseline(Value):
    """The reference itself, established once before any candidate."""

    task: str
    """`KernelTask.digest`"""
    operators: tuple[str, ...] = ()
    """ATen operators of one forward, in order."""
    inputs: dict[str, str] = {}
    """Dtype and full shape of each input: `name -> "float32[16, 1024]"`."""
    outputs: dict[str, str] = {}
    """Dtype and full shape of each output."""
    parameters: int = 0
    """Count of scalar parameters."""
    compulsory_bytes: float = 0.0
    """Traffic where inputs, parameters and outputs move once each [byte]."""
    eager_bytes: float = 0.0
    """Traffic of eager PyTorch, which writes and reads every intermediate [byte]."""
    flops: float = 0.0
    """Operations in matrix products, as far as they could be counted [flop]."""
    uncounted: tuple[str, ...] = ()
    """Operators whose operations could not be counted: `flops` and `floor_ms` leave them out, so both are too low."""
    floor_ms: float = 0.0
    """max(compulsory_bytes / DRAM bandwidth, flops / peak) on the target [ms].

    No kernel that reads all inputs and parameters and makes all products of the reference can be faster; one that needs
    only a part of them can.
    """
    shrunk_shapes: tuple[dict[str, int], ...] = ()
    """Smaller shapes, used where the full one cannot run. The second is awkward: odd or prime."""
    eager_ms: float | None = None
    """Time of eager PyTorch [ms]; None where no GPU timed it."""
    compile_ms: float | None = None
    """Time of `torch.compile` [ms]; None where no GPU timed it."""
    eager_fp32_ms: float | None = None
    """Time of eager PyTorch with TF32 off [ms]; None where no GPU timed it."""
    tuned: TunedBaseline | None = None
    """PyTorch with its own switches turned; None where nobody asked for it."""
    environment: Environment | None = None
    families: tuple[str, ...] = ()
    """Input distributions (`Check.family`) that this problem can be judged on, `as given` first."""
    weaknesses: tuple[str, ...] = ()
    """What an answer that computes nothing would pass at a common fixed tolerance; the error budgets are tighter."""
    unevaluable: str = ""
    """Why no candidate can be judged against this reference; empty where one can."""
    spent: Spending = Field(default_factory=Spending)
    """Where the time of the call went, and its peak memory; empty where the evaluator does not tell."""

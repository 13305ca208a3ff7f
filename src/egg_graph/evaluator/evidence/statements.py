"""Say in words what launches and compilation prove about a candidate, or what speaks against it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from egg_graph.evaluator.wire.launches import FakeRun, Launch, Reach
from egg_graph.evaluator.wire.operators import MEMORY_OPERATORS
from egg_graph.schema import SMALL_SPILL, Baseline, Check, Finding, KernelResources, KernelTask, Precision

MOST_MODES = 4
"""Count an integer constant below this as a mode, a larger one as a size."""
LONGEST_VALUE = 40
"""Shorten a longer value of a constructor's argument."""


COMPILED_FROM = {"kernel", "source", "captured", "signature", "constexprs", "divisible_by_16", "options"}
"""Fields of a launch on which its compiled code depends."""


def code_key(launch: Launch) -> str:
    """What two launches have in common that compile to the same code."""
    return launch.model_dump_json(include=COMPILED_FROM)


def distinct(launches: Sequence[Launch]) -> list[Launch]:
    """Keep the first of all launches that compile to the same code; of cooperative ones the one of most programs."""
    seen: dict[str, Launch] = {}
    for launch in launches:
        key = code_key(launch)
        earlier = seen.get(key)
        if earlier is None or (launch.cooperative and launch.programs > earlier.programs):
            seen[key] = launch
    return list(seen.values())


def unseen_branches(checked: Sequence[Launch], at_full: Sequence[Launch]) -> list[str]:
    """List kernels, and values of compile-time flags, that are launched at full shape and at no checked shape."""
    known = {launch.kernel for launch in checked}
    flags = {(launch.kernel, *flag) for launch in checked for flag in _flags(launch)}
    unseen = [launch.kernel for launch in at_full if launch.kernel not in known]
    unseen += [
        f"{launch.kernel} with {name}={value}"
        for launch in at_full
        for name, value in _flags(launch)
        if launch.kernel in known and (launch.kernel, name, value) not in flags
    ]
    return list(dict.fromkeys(unseen))


def not_reached(baseline: Baseline, reach: Reach) -> Finding:
    """Report that the programs at full shape leave out a part of an input or output."""
    names = list(baseline.inputs if reach.tensor == "input" else baseline.outputs)
    name = names[reach.index] if reach.index < len(names) else f"{reach.tensor} {reach.index}"
    verb = "read" if reach.tensor == "input" else "write"
    return Finding(
        kind="specialised_to_shape",
        message=f"at full shape all programs together {verb} at most {reach.most / reach.nbytes:.1%} of the "
        f"{reach.nbytes / 1e6:.4g} MB of {name}",
        where=name,
        cure="let grid and loops cover the tensors at every size: no bound of their own",
    )


def _flags(launch: Launch) -> list[tuple[str, str]]:
    """List compile-time constants that choose a branch, not a size. Tuned constants are left out."""
    tuned = {name for config in launch.configs for name in config}
    return [
        (name, str(value))
        for name, value in launch.constexprs.items()
        if name not in tuned and (not isinstance(value, int | float) or value in range(MOST_MODES))
    ]


def spills(resources: Sequence[KernelResources]) -> list[Finding]:
    """Report kernels that spill more than a few registers: slow, not wrong."""
    return [
        Finding(
            kind="register_spill",
            message=f"{r.spill_bytes} bytes of registers per thread spill to memory",
            where=f"kernel {r.kernel}",
            cure="take smaller blocks or more warps",
        )
        for r in resources
        if r.spill_bytes > SMALL_SPILL
    ]


def compile_statement(resources: Sequence[KernelResources], arch: str) -> str:
    """Say what compilation proved, kernel by kernel."""
    from importlib.metadata import version

    parts = []
    for r in resources:
        spilled = f"{r.spill_bytes} B spilled" if r.spill_bytes else "no spills"
        registers = f"{r.registers} registers, " if r.registers is not None else ""
        parts.append(f"{r.kernel}: {registers}{spilled}, {kib(r.shared_bytes)} of {kib(r.shared_limit)} shared memory")
    return f"compiles for {arch} with triton {version('triton')}: {'; '.join(parts)}"


def kib(count: int) -> str:
    """Format a size as bytes, or as whole KiB from 1024 bytes on."""
    return f"{count / 1024:.0f} KiB" if count >= 1024 else f"{count} B"


def count(number: int, one: str, many: str = "") -> str:
    """Format a count: `1 seed`, `2 seeds`."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def show(overrides: dict[str, int]) -> str:
    """Format the sizes of a shape."""
    return (
        "{" + ", ".join(f"{name}: {value}" for name, value in overrides.items()) + "}" if overrides else "as declared"
    )


def worst_check(checks: Sequence[Check]) -> Check:
    """Return the check that used most of its budget; one whose budget is 0 counts as exact."""
    return max(checks, key=lambda check: check.error / check.budget if check.budget else 0.0)


def error_statement(checks: Sequence[Check], against: str, precision: Precision) -> str:
    """Say how far off the worst answer was; where operands may be truncated, beside PyTorch's own error."""
    check = worst_check(checks)
    own = check.pytorch_error
    beside = f" (PyTorch's own, which rounds: {own:.1e})" if precision == "tf32_truncated" and own is not None else ""
    policy = f" at precision {precision}" if precision == "tf32_truncated" else ""
    return f"error {check.error:.1e}{beside} of a budget of {check.budget:.1e} against {against}{policy}"


def left_out_statement(what: str, left_out: Mapping[str, str]) -> str:
    """Say what was not tried, and why: what one reason holds for stands together.

    Args:
        what: that was left out, in words.
        left_out: names or words, and why each was not tried.
    """
    reasons = {why: [name for name in left_out if left_out[name] == why] for why in left_out.values()}
    return f"{what}: " + "; ".join(f"{', '.join(names)} ({why})" for why, names in reasons.items())


def unvaried_statement(arguments: Mapping[str, object]) -> str:
    """Say that nothing is known of other values of these arguments of the constructor."""
    told = ", ".join(f"{name} = {_brief(value)}" for name, value in arguments.items())
    return f"other arguments of the constructor than {told}"


def unvaried_sizes_statement(sizes: Mapping[str, int]) -> str:
    """Say that nothing is known of other values of these sizes of the inputs."""
    return f"other sizes of the inputs than {', '.join(f'{name} = {size}' for name, size in sizes.items())}"


def _brief(value: object) -> str:
    """`repr` of a value on one line of at most `LONGEST_VALUE` characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"


def no_launch() -> Finding:
    """Report a module that launches no Triton kernel."""
    return Finding(
        kind="no_triton_kernel",
        message="forward launches no Triton kernel",
        cure="compute the result in a @triton.jit kernel that forward launches",
    )


def forbidden_library(task: KernelTask, run: FakeRun) -> list[Finding]:
    """Report library operators that compute where the task allows Triton only."""
    names = sorted({call.name for call in run.library if call.name.removeprefix("aten.") not in MEMORY_OPERATORS})
    if not task.triton_only or not names:
        return []
    return [
        Finding(
            kind="library_call",
            message=f"the task allows Triton kernels only, but forward calls {', '.join(names)}",
            cure="compute this in a Triton kernel too",
        )
    ]


def launch_statement(run: FakeRun) -> str:
    """Say what the run without values at full shape proved."""
    parts = [f"{_which(launch)}: {launch.kernel}{list(launch.grid)}" for launch in run.launches[:6]]
    more = f" and {count(len(run.launches) - 6, 'more launch', 'more launches')}" if len(run.launches) > 6 else ""
    library = f"; beside them PyTorch runs {', '.join(sorted({c.name for c in run.library}))}" if run.library else ""
    return f"no access out of bounds at full shape in {', '.join(parts)}{more}{library}"


def _which(launch: Launch) -> str:
    """Say how many programs of a launch were interpreted."""
    if not launch.left_out:
        return "its 1 program" if launch.programs == 1 else f"all {launch.programs} programs"
    return f"the {launch.executed} of {count(launch.programs, 'program')} sampled"


def unsampled_statement(run: FakeRun) -> str:
    """Say which programs at full shape were not run; empty if all were."""
    missing: dict[str, int] = {}
    for launch in run.launches:
        missing[launch.kernel] = missing.get(launch.kernel, 0) + launch.left_out
    parts = [f"the other {count(number, 'program')} of {kernel}" for kernel, number in missing.items() if number]
    if not parts:
        return ""
    return f"{', '.join(parts)} at full shape {'was' if sum(missing.values()) == 1 else 'were'} not run"


def unsampled_words(run: FakeRun) -> str:
    """Say what the lower bound assumes where not every program was run."""
    if not any(launch.left_out for launch in run.launches):
        return ""
    return ", if no program that was not run does less, or less for a byte of the answer, than all of those that were"


def uncounted_words(run: FakeRun) -> str:
    """Say which library operators the lower bound takes as if they did not compute."""
    names = sorted({call.name for call in run.library if not call.counted})
    return f", and as if {', '.join(names)} computed nothing: its operations cannot be counted" if names else ""


def floor_words(baseline: Baseline) -> str:
    """Say the reference's floor, and what it leaves out."""
    missing = (
        f", those of {', '.join(baseline.uncounted)} left out: they cannot be counted" if baseline.uncounted else ""
    )
    return f"with all inputs, parameters and products{missing} the floor is {baseline.floor_ms:.4g} ms"

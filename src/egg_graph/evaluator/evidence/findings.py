"""The table of findings: the verdict that each kind means, its usual cause and cure, and which ladder can see it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from egg_graph.schema import Finding, FindingKind, Status

Seer = Literal["gate", "no gpu", "gpu", "both"]
"""What can see a finding: the static gate, one of the ladders, or both of them."""


@dataclass(frozen=True)
class FindingRow:
    """One row of the table of findings."""

    status: Status | None
    """The verdict that it means; None where it is worth telling and no reason to reject."""
    cause: str
    """What has usually happened."""
    cure: str
    """What usually mends it. A finding's own `cure` is more specific."""
    seen_by: Seer


FINDINGS: dict[FindingKind, FindingRow] = {
    # before running
    "no_code": FindingRow("invalid", "The answer holds no source.", "Send one complete Python module.", "gate"),
    "syntax_error": FindingRow("compile_error", "The source is no Python.", "Mend the syntax.", "gate"),
    "missing_entry_point": FindingRow(
        "invalid",
        "There is no class ModelNew that is an nn.Module.",
        "Define class ModelNew(nn.Module).",
        "gate",
    ),
    "forbidden_construct": FindingRow(
        "invalid", "The source uses what a kernel needs not and a cheat does.", "Leave it out.", "gate"
    ),
    "forbidden_import": FindingRow(
        "invalid", "The source imports what a kernel does not need.", "Import torch, triton and math.", "gate"
    ),
    "test_code": FindingRow(
        "invalid", "Other code of the module needs its test code.", "Remove get_inputs, __main__ and tests.", "gate"
    ),
    "no_triton_kernel": FindingRow(
        "invalid",
        "forward launches no Triton kernel of its own.",
        "Compute the result in a @triton.jit kernel.",
        "both",
    ),
    "unsupported_in_kernel": FindingRow(
        "compile_error", "The kernel uses Python that Triton cannot compile.", "Write it with triton.language.", "both"
    ),
    # compiling for the target
    "kernel_compile_error": FindingRow(
        "compile_error", "Triton's compiler refuses the kernel.", "Follow the compiler's message.", "both"
    ),
    "shared_memory_exceeded": FindingRow(
        "compile_error", "The tiles do not fit in shared memory.", "Use smaller tiles or fewer stages.", "both"
    ),
    "programs_not_resident": FindingRow(
        "compile_error",
        "A cooperative launch has more programs than the GPU holds at once.",
        "Launch fewer programs, each with more of the work.",
        "both",
    ),
    "register_spill": FindingRow(
        None, "More than 64 byte a thread are spilled: slow, not wrong.", "Use smaller blocks or more warps.", "both"
    ),
    # running
    "exception": FindingRow("runtime_error", "The candidate's Python raised.", "Mend what the message names.", "both"),
    "crashed": FindingRow("runtime_error", "The process died of a signal.", "Look for stray pointers.", "both"),
    "exited": FindingRow("runtime_error", "The process ended, or answered nothing readable.", "Do not exit.", "both"),
    "timeout": FindingRow("timeout", "The call took longer than its limit.", "Look for a loop without an end.", "both"),
    "memory_exceeded": FindingRow(
        "out_of_memory", "The process took more memory than allowed.", "Allocate what one forward needs.", "both"
    ),
    "out_of_bounds": FindingRow(
        "runtime_error",
        "A load or store reaches past its tensor, often at a size that is no multiple of a block.",
        "Mask it by the tensor's size; or let forward refuse such sizes by an assertion: they are told and not judged.",
        "both",
    ),
    "write_race": FindingRow(
        "incorrect", "Two programs store different values to one address.", "Use atomics or one writer.", "no gpu"
    ),
    "device_assert": FindingRow("runtime_error", "A device assertion failed.", "Mend what it asserts.", "both"),
    "too_many_processes": FindingRow("runtime_error", "The candidate starts processes.", "Start none.", "both"),
    "uninitialised_read": FindingRow(
        "incorrect", "A kernel reads memory that nobody wrote.", "Initialise it, or do not read it.", "gpu"
    ),
    # the answer
    "unwritten_output": FindingRow(
        "incorrect", "Elements of the output were never written.", "Let grid and masks cover the output.", "both"
    ),
    "non_finite": FindingRow(
        "incorrect", "NaN or infinity where the reference is finite.", "Subtract the maximum; guard divisions.", "both"
    ),
    "wrong_values": FindingRow("incorrect", "Values differ beyond the budget.", "Compare with the reference.", "both"),
    "precision_loss": FindingRow(
        "incorrect", "A narrow type rounds more than the policy allows.", "Accumulate in float32.", "both"
    ),
    "tf32_truncation": FindingRow(
        "incorrect", "tl.dot truncates fp32 operands to TF32.", "Round operands (cvt.rna.tf32.f32), or tf32x3.", "both"
    ),
    "wrong_shape": FindingRow("incorrect", "The output has another shape.", "Allocate the reference's shape.", "both"),
    "wrong_dtype": FindingRow("incorrect", "The output has another dtype.", "Allocate the reference's dtype.", "both"),
    "wrong_structure": FindingRow(
        "incorrect", "forward returns another structure of tensors.", "Return what the reference returns.", "both"
    ),
    "wrong_device": FindingRow("incorrect", "The output is on another device.", "Return a tensor on the GPU.", "both"),
    "wrong_strides": FindingRow(
        "incorrect",
        "The output overlaps itself, or has another order where the reference only moves numbers.",
        "Return a dense tensor in the same order.",
        "both",
    ),
    "aliased_output": FindingRow(
        "incorrect",
        "The output shares memory with an input, weight or earlier answer.",
        "Allocate it anew.",
        "both",
    ),
    "input_mutated": FindingRow("incorrect", "forward changes an input.", "Write to a fresh tensor.", "both"),
    "parameter_mutated": FindingRow(
        "incorrect", "forward changes a weight, or does not update a buffer.", "Do what the reference does.", "both"
    ),
    "specialised_to_shape": FindingRow(
        "incorrect", "Right at one shape only.", "Take sizes from the tensors; mask ragged ends.", "both"
    ),
    "not_deterministic": FindingRow("incorrect", "Right once, wrong when repeated.", "Look for a race.", "gpu"),
    "weights_mismatch": FindingRow(
        "invalid", "ModelNew's parameters do not fit the reference's.", "Use the reference's state_dict.", "both"
    ),
    "library_call": FindingRow(
        "invalid", "The task allows Triton only, and PyTorch computes.", "Compute it in Triton.", "both"
    ),
    # how the answer came about
    "replayed_output": FindingRow("invalid", "The answer is that of an earlier call.", "Keep no answers.", "both"),
    "late_output": FindingRow(
        "invalid", "The answer is complete only after forward returned.", "Work on the current stream.", "gpu"
    ),
    "clock_disagreement": FindingRow(
        "invalid", "Clocks disagree: work is hidden from one of them.", "Do all work inside forward.", "gpu"
    ),
    "below_roofline": FindingRow(
        "invalid", "Faster than memory or arithmetic allow.", "Do the work that the answer needs.", "gpu"
    ),
    "not_causal": FindingRow(
        "invalid", "The candidate's kernels do not make the answer.", "Compute it in Triton.", "both"
    ),
    "library_patched": FindingRow(
        "invalid", "The candidate changes Python, PyTorch or Triton.", "Leave them as they are.", "both"
    ),
    # beyond the task's domain
    "not_preserved": FindingRow(
        None, "Infinities go in, and others come out.", "Ask for domain nonfinite where that matters.", "both"
    ),
    # the problem or the machine
    "degenerate_problem": FindingRow(
        "unevaluable", "An empty kernel would pass.", "Take inputs or sizes on which the answer depends.", "both"
    ),
    "stochastic_problem": FindingRow(
        "unevaluable", "The reference answers differently each time.", "Remove dropout and random draws.", "both"
    ),
    "reference_failed": FindingRow("unevaluable", "The reference itself fails.", "Mend the reference.", "both"),
    "infrastructure": FindingRow("infra_error", "The machine failed.", "Run it again; look at the log.", "both"),
}


def rejecting(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Those findings that make a kernel unusable, in order."""
    return tuple(finding for finding in findings if FINDINGS[finding.kind].status is not None)


def status_of(findings: Sequence[Finding]) -> Status:
    """The status that the first rejecting finding means; `correct` where there is none."""
    for finding in rejecting(findings):
        status = FINDINGS[finding.kind].status
        assert status is not None
        return status
    return "correct"


def reason_of(finding: Finding) -> str:
    """One line: what is wrong and where."""
    text = f"{finding.message} ({finding.where})" if finding.where else finding.message
    return " ".join(text.split())[:400]


def not_causal(message: str, cure: str, kernels: Sequence[str]) -> Finding:
    """A finding that the candidate's own kernels (by name) do not make the answer."""
    where = f"kernel {', '.join(kernels)}"[:200] if kernels else ""
    return Finding(kind="not_causal", message=message, where=where, cure=cure)

"""From findings to a status: which kind of finding means which verdict, and the one line that says why."""

from collections.abc import Iterable, Sequence

from egg_graph.schema import Finding, FindingKind, Status

STATUS_OF: dict[FindingKind, Status | None] = {
    **dict.fromkeys(
        (
            *("no_code", "missing_entry_point", "forbidden_construct", "forbidden_import", "test_code"),
            *("no_triton_kernel", "weights_mismatch", "library_call"),
            *("replayed_output", "late_output", "clock_disagreement", "below_roofline", "not_causal"),
            "library_patched",
        ),
        "invalid",
    ),
    **dict.fromkeys(
        ("syntax_error", "unsupported_in_kernel", "kernel_compile_error", "shared_memory_exceeded"), "compile_error"
    ),
    **dict.fromkeys(
        ("exception", "crashed", "exited", "out_of_bounds", "device_assert", "too_many_processes"), "runtime_error"
    ),
    "timeout": "timeout",
    "memory_exceeded": "out_of_memory",
    **dict.fromkeys(
        (
            *("write_race", "unwritten_output", "non_finite", "wrong_values", "precision_loss", "tf32_truncation"),
            *("wrong_shape", "wrong_dtype", "wrong_structure", "wrong_device", "wrong_strides", "aliased_output"),
            *("input_mutated", "parameter_mutated", "specialised_to_shape", "not_deterministic", "uninitialised_read"),
        ),
        "incorrect",
    ),
    **dict.fromkeys(("degenerate_problem", "stochastic_problem", "reference_failed"), "unevaluable"),
    "infrastructure": "infra_error",
    "register_spill": None,
}
"""None: worth telling, no reason to reject."""


def rejecting(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Those findings that make a kernel unusable, in order."""
    return tuple(finding for finding in findings if STATUS_OF[finding.kind] is not None)


def status_of(findings: Sequence[Finding]) -> Status:
    """The status that the first rejecting finding means; `correct` where there is none."""
    for finding in rejecting(findings):
        status = STATUS_OF[finding.kind]
        assert status is not None
        return status
    return "correct"


def reason_of(finding: Finding) -> str:
    """One line: what is wrong and where."""
    text = f"{finding.message} ({finding.where})" if finding.where else finding.message
    return " ".join(text.split())[:400]

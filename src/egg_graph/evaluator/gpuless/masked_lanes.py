"""Lanes that a load masks off without `other`: undefined in Triton's language, 0 in code compiled for NVIDIA's GPUs.

The interpreter poisons them. Where the answer depends on them, it is judged once more with zeros; whether they are
zeros is read from the code that is compiled for the target.
"""

from __future__ import annotations

from collections.abc import Sequence

from egg_graph.evaluator.evidence.builder import EvaluationBuilder
from egg_graph.evaluator.gpuless.process_outcome import ProcessOutcome
from egg_graph.schema import Finding, FindingKind, KernelResources, KernelTask

UNDEFINED: frozenset[FindingKind] = frozenset({"unwritten_output", "non_finite", "out_of_bounds"})
"""Findings that an undefined lane can be behind."""
CURE = "give the load an `other` that changes nothing: 0.0 for a sum or a product, -inf for a maximum"


def may_be_zero(task: KernelTask, found: ProcessOutcome) -> bool:
    """Whether a failure may be one of lanes that are undefined in the interpreter and 0 on the target."""
    return found.failed and bool(found.undefined_loads) and task.target.vendor == "nvidia"


def name_loads(found: ProcessOutcome, zeroed: ProcessOutcome) -> None:
    """Name the loads in the findings that undefined lanes are behind: those that are other ones with zeros there.

    A product that truncates its operands is told first: that is why the answer is wrong on the target, too.
    """
    loads = "; ".join(found.undefined_loads)
    still = {finding.message for section in zeroed.sections.values() for finding in section.findings}
    for section in found.sections.values():
        section.findings = [x if x.message in still else _named(x, loads) for x in section.findings]
    for name, section in zeroed.sections.items():
        there = [finding.message for finding in found.sections[name].findings]
        cut = [x for x in section.findings if x.kind == "tf32_truncation" and x.message not in there]
        found.sections[name].findings[:0] = cut


def right_with_zeros(found: ProcessOutcome, zeroed: ProcessOutcome) -> bool:
    """Whether the answer to the inputs as given hangs on undefined lanes and is right with zeros there, so that what is
    wrong elsewhere is wrong for another reason."""
    return found.sections["correctness"].failed and not zeroed.sections["correctness"].failed


def name_zeros(zeroed: ProcessOutcome, loads: Sequence[str]) -> None:
    """Say in the findings of such an outcome that lanes without `other` count as 0: that may be the reason."""
    words = f"masked lanes count as 0 here, for a load gives no `other` ({'; '.join(loads)})"
    for section in zeroed.sections.values():
        section.findings = [x.model_copy(update={"message": f"{x.message}; {words}"}) for x in section.findings]


def _named(finding: Finding, loads: str) -> Finding:
    undefined = "never written (or hold undefined values)" in finding.message
    if finding.kind not in UNDEFINED or (finding.kind == "unwritten_output" and not undefined):
        return finding
    message = finding.message.replace("were never written (or hold undefined values)", "hold undefined values")
    return finding.model_copy(
        update={"message": f"{message}; a load masks lanes off without `other` ({loads})", "cure": CURE}
    )


def kernels_of(loads: Sequence[str]) -> set[str]:
    """Names of the kernels that hold these loads."""
    return {load.removeprefix("kernel ").split(",")[0] for load in loads}


def judge_zeroed(
    loads: Sequence[str], resources: Sequence[KernelResources], builder: EvaluationBuilder, task: KernelTask
) -> None:
    """One rung for an answer that is right only if masked lanes are 0: what the compiled code makes of them.

    Args:
        loads: kernel and line of each load without `other`.
        resources: tell of the compiled code.
        builder: gets the rung.
        task: names the target.
    """
    where = "; ".join(loads)
    known = kernels_of(loads) <= {resource.kernel for resource in resources}
    if known and all(resource.undefined_lanes is False for resource in resources):
        words = (
            f"the answer depends on lanes that a load masks off without `other` ({where}): Triton leaves them "
            f"undefined, and they are 0 in the code compiled for {task.target.arch}"
        )
        builder.skipped("masked_lanes", words)
        return
    message = "the answer depends on lanes that a load masks off without `other`, which are undefined"
    builder.fail("masked_lanes", [Finding(kind="unwritten_output", message=message, where=where, cure=CURE)])

"""The embedded debugger: from a failed evaluation to the blamed group, its root cause and the playbook's remedy.

A remedy is applied to a plan, and the plan is read from the broken module itself, so that repairing needs no memory.
"""

import re
from collections.abc import Mapping

from egg_graph.expert.codegen.plan import read_plan
from egg_graph.expert.playbooks.playbook import Remedy
from egg_graph.expert.playbooks.registry import playbook_names, playbooks_by_name
from egg_graph.schema import Candidate, Diagnosis, Evaluation, Finding

MOST_WORDS = 30
"""The most words of a cause or a plan."""
NOT_TO_BLAME = ("infrastructure", "degenerate_problem", "reference_failed")
"""Findings that no change of the kernel mends."""
STATUS_KIND = {
    "compile_error": "kernel_compile_error", "runtime_error": "exception", "timeout": "timeout",
    "out_of_memory": "memory_exceeded", "incorrect": "wrong_values", "invalid": "forbidden_construct",
}  # fmt: skip
"""The kind to assume for a failure without findings, by the evaluation's status."""

CAUSES: dict[str, str] = {
    "no_code": "The answer holds no module",
    "syntax_error": "The module is no valid Python",
    "missing_entry_point": "The module defines no ModelNew that the contract asks for",
    "forbidden_construct": "The module uses a construct that the contract forbids",
    "forbidden_import": "The module imports something outside the allowed list",
    "test_code": "The module carries test code or input functions",
    "no_triton_kernel": "No Triton kernel does the work",
    "unsupported_in_kernel": "A kernel uses a statement that the Triton compiler has no code for",
    "kernel_compile_error": "A kernel does not compile for the target",
    "shared_memory_exceeded": "The tiles of all pipeline stages together exceed the target's shared memory",
    "programs_not_resident": "A cooperative launch has more programs than the GPU holds at once",
    "register_spill": "A program holds more values than its threads have registers for",
    "exception": "The module raises when it runs",
    "crashed": "The process died: a memory fault in a kernel is likely",
    "exited": "The module ends the process",
    "timeout": "The run exceeds its time limit: too many programs or an unbounded loop",
    "memory_exceeded": "The module allocates more memory than there is",
    "out_of_bounds": "An index or mask lets a program touch memory outside a tensor",
    "write_race": "Two programs write the same element: the grid or an index map overlaps",
    "unwritten_output": "Some output elements are never stored: grid or mask leaves out a tail",
    "non_finite": "An intermediate overflows or divides by zero where PyTorch does not",
    "wrong_values": "The fused arithmetic differs from the reference",
    "precision_loss": "A value is rounded to a narrower type than the policy allows",
    "tf32_truncation": "fp32 operands reach the tensor cores unrounded, which truncates them to TF32",
    "wrong_shape": "An output has another shape than the reference's",
    "wrong_dtype": "An output has another dtype than the reference's",
    "wrong_structure": "The outputs are nested in another way than the reference's",
    "input_mutated": "A kernel writes into an input or parameter",
    "specialised_to_shape": "A size is fixed that must be read from the tensors",
    "weights_mismatch": "Parameter names or shapes differ from the reference's",
    "library_call": "A library operator remains where only Triton is allowed",
    "degenerate_problem": "The reference's answer hardly depends on its inputs",
    "reference_failed": "The reference itself fails",
    "infrastructure": "The machine failed, not the kernel",
}
"""The root cause in words, by the finding's kind."""


def diagnose(evaluation: Evaluation, kernel: Candidate) -> Diagnosis:
    """Name the root cause and the remedy, each in at most 30 words."""
    remedy = choose_remedy(evaluation, kernel)
    finding = _first_finding(evaluation)
    message = finding.message if finding is not None else evaluation.reason
    where = f" ({finding.where})" if finding is not None and finding.where else ""
    return Diagnosis(critical_issue=_cause(remedy, message + where), modification_plan=_plan(remedy))


def choose_remedy(evaluation: Evaluation, kernel: Candidate) -> Remedy:
    """Choose what to change in a failing kernel; debugger and coder follow the same choice.

    The blamed group's playbook decides. A module without a plan is written anew. A group whose playbook is unknown
    goes back to PyTorch.
    """
    groups, _ = read_plan(kernel.source)
    finding = _first_finding(evaluation)
    kind = finding.kind if finding is not None else STATUS_KIND.get(evaluation.status, "exception")
    if not groups:
        return Remedy("rewrite", kind)
    if kind in NOT_TO_BLAME:
        return Remedy("none", kind)
    group = _blamed(finding, evaluation.log, groups)
    playbook = playbooks_by_name().get(playbook_names([group])[group])
    if playbook is None:
        return Remedy("drop", kind, group)
    knobs = {k: v for k, v in kernel.config.items() if k.startswith(f"{group}_")}
    return playbook.remedy(kind, group, groups[group], knobs)


def _first_finding(evaluation: Evaluation) -> Finding | None:
    """Return the finding to act on; the evaluator puts the one nearest to the cause first."""
    return evaluation.findings[0] if evaluation.findings else None


def _blamed(finding: Finding | None, log: str, groups: Mapping[str, str]) -> str:
    """Return the group whose kernel the finding or the log's tail names; else that of the most complex playbook."""
    for text in (finding.where, finding.message, log[-2000:]) if finding else (log[-2000:],):
        named = [g for g in groups if re.search(rf"\b{re.escape(g)}(_\w*kernel\b|\b)", text)]
        if named:
            return max(named, key=len)
    known, owner = playbooks_by_name(), playbook_names(groups)
    return max(groups, key=lambda g: known[owner[g]].complexity if owner[g] in known else 0)


def _cause(remedy: Remedy, message: str) -> str:
    where = f" in {remedy.group}" if remedy.group else ""
    return _clipped(
        f"{CAUSES.get(remedy.kind, remedy.kind)}{where}: {message}" if message else CAUSES[remedy.kind] + where
    )


def _plan(remedy: Remedy) -> str:
    group = remedy.group
    knobs = ", ".join(f"{k} = {v}" for k, v in (remedy.knobs or {}).items())
    return _clipped(
        {
            "shrink": f"Shrink {group}: set {knobs} in CONFIG; keep everything else.",
            "spread": f"Spread {group} over more warps: set {knobs} in CONFIG; keep everything else.",
            "plain": f"Write {group} in its playbook's plainest structure; keep the other kernels.",
            "drop": f"Take {group} back to PyTorch operators in forward; keep the other kernels.",
            "rewrite": "Write the module anew from the captured graph, following the output contract.",
            "none": "Nothing in the kernel: repeat the evaluation.",
        }[remedy.action]
    )


def _clipped(text: str) -> str:
    words = text.split()
    return " ".join(words) if len(words) <= MOST_WORDS else " ".join(words[: MOST_WORDS - 1]) + " …"

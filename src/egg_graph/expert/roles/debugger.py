"""What the embedded debugger says: root cause and plan for each class of failure, at most 30 words each."""

from egg_graph.expert.roles.remedy import Remedy

MOST_WORDS = 30

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


def cause(remedy: Remedy, message: str) -> str:
    """The root cause, with the evaluator's own words as far as they fit."""
    where = f" in {remedy.group}" if remedy.group else ""
    return clipped(
        f"{CAUSES.get(remedy.kind, remedy.kind)}{where}: {message}" if message else CAUSES[remedy.kind] + where
    )


def plan(remedy: Remedy) -> str:
    """What the coder should change."""
    group = remedy.group
    knobs = ", ".join(f"{k} = {v}" for k, v in (remedy.knobs or {}).items())
    return clipped(
        {
            "shrink": f"Shrink {group}: set {knobs} in CONFIG; keep everything else.",
            "spread": f"Spread {group} over more warps: set {knobs} in CONFIG; keep everything else.",
            "plain": f"Write {group} in its playbook's plainest structure; keep the other kernels.",
            "drop": f"Take {group} back to PyTorch operators in forward; keep the other kernels.",
            "rewrite": "Write the module anew from the captured graph, following the output contract.",
            "none": "Nothing in the kernel: repeat the evaluation.",
        }[remedy.action]
    )


def clipped(text: str) -> str:
    """At most 30 words."""
    words = text.split()
    return " ".join(words) if len(words) <= MOST_WORDS else " ".join(words[: MOST_WORDS - 1]) + " …"

"""Every planted wrong candidate gets its own status, kind and a message to act on; and nothing outlives it."""

from collections.abc import Callable
from functools import cache

import pytest

from egg_graph.evaluator import LocalEvaluator
from egg_graph.schema import Candidate, Evaluation, Hardware, KernelTask, Precision
from tests.paths import read_source

SOFTMAX = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)


batch_size = 4096
dim = 8192


def get_inputs():
    return [torch.randn(batch_size, dim)]
"""
MATMUL = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x):
        return nn.functional.gelu(self.linear(x))


batch_size = 1024
in_features = 2048
out_features = 4096


def get_inputs():
    return [torch.rand(batch_size, in_features)]


def get_init_inputs():
    return [in_features, out_features]
"""
SMALL_SOFTMAX = SOFTMAX.replace("4096", "256").replace("8192", "512")
SMALL_MATMUL = MATMUL.replace("1024", "128").replace("2048", "256").replace("4096", "512")
"""Where the full size is not the point: their long shapes are soon interpreted."""


def planted(name: str) -> Candidate:
    """A candidate of the corpus."""
    return Candidate(source=read_source(name), author="test", stage="algorithmic_structure", mode="seed")


@pytest.fixture(scope="module")
def judge(evaluator: LocalEvaluator, h200: Hardware):
    """All candidates for a reference are for one task, which its first one establishes."""

    def evaluate(name: str, *, reference: str = SOFTMAX, precision: Precision = "tf32", **terms: bool) -> Evaluation:
        task = KernelTask(name="planted", reference=reference, target=h200, precision=precision, **terms)
        return evaluator.evaluate(task, planted(name))

    return evaluate


@pytest.fixture(scope="module")
def right(judge) -> Callable[[str, str], Evaluation]:
    """What is found of a right kernel, evaluated once."""
    return cache(lambda name, reference: judge(name, reference=reference))


RIGHT = [("right/softmax_one_block.py", SOFTMAX, 2), ("right/matmul_bias_gelu.py", MATMUL, 3)]


@pytest.mark.parametrize(("name", "reference", "long"), RIGHT)
def test_a_right_kernel_is_correct_and_says_on_what_evidence(right, name: str, reference: str, long: int) -> None:
    evaluation = right(name, reference)
    assert evaluation.status == "correct", evaluation.reason
    assert evaluation.usable
    assert [rung.name for rung in evaluation.rungs if rung.outcome == "passed"] == [
        "static_gate",
        "correctness_shrunk",
        "correctness_awkward",
        *(f"correctness_long_{index}" for index in range(long)),
        "other_inputs",
        "other_uses",
        "causality",
        "full_shape_launches",
        "coverage_at_full_shape",
        "compile_for_target",
        "roofline",
    ]
    given = [check for check in evaluation.checks if check.family == "as given"]
    assert len({check.seed for check in given}) == 4 + long  # the fourth is of another shape in the same module
    assert {check.family for check in evaluation.checks} >= {"negated", "tiny", "large", "outlier", "integers"}
    assert all(check.passed and check.error <= check.budget < 0.05 for check in evaluation.checks)
    assert evaluation.kernelbench is not None
    assert evaluation.kernelbench.passed
    assert evaluation.integrity is not None
    assert evaluation.integrity.causal
    assert evaluation.integrity.computing == ()
    assert evaluation.triton_share == 1.0
    assert evaluation.bound is not None
    assert evaluation.bound.milliseconds > 0
    assert evaluation.timing is None
    assert any("no speed was measured" in statement for statement in evaluation.not_proven)
    assert any("answers at full shape were not compared" in statement for statement in evaluation.not_proven)
    assert any(statement.startswith("the other ") for statement in evaluation.not_proven)
    resources = evaluation.resources[0]
    assert resources.target == "sm_90"
    assert resources.fits
    assert resources.registers is not None


def test_tensor_cores_are_seen_in_the_compiled_matrix_product(right) -> None:
    resources = right("right/matmul_bias_gelu.py", MATMUL).resources[0]
    assert sum(resources.tensor_core_instructions.values()) > 0
    assert resources.shared_bytes > 0


# name, reference, status, kinds, what the message or the place must name
WRONG = [
    ("faults/wrong_answer.py", SMALL_SOFTMAX, "incorrect", {"wrong_values"}, "0.9901 times the expected"),
    ("faults/off_by_one_mask.py", SMALL_SOFTMAX, "incorrect", {"wrong_values", "unwritten_output"}, "never written"),
    ("faults/out_of_bounds_load.py", SMALL_SOFTMAX, "runtime_error", {"out_of_bounds"}, "x_ptr"),
    ("faults/write_race.py", SMALL_SOFTMAX, "incorrect", {"write_race"}, "softmax_kernel"),
    ("faults/unwritten_output.py", SMALL_SOFTMAX, "incorrect", {"unwritten_output"}, "never written"),
    ("faults/bf16_misuse.py", SMALL_SOFTMAX, "incorrect", {"precision_loss"}, "bfloat16"),
    ("faults/exit_zero.py", SMALL_SOFTMAX, "runtime_error", {"exited"}, "exit status 0"),
    ("faults/segfault.py", SMALL_SOFTMAX, "runtime_error", {"crashed"}, "in forward"),
    ("faults/allocates_24_gb.py", SMALL_SOFTMAX, "out_of_memory", {"memory_exceeded"}, "in forward"),
    ("faults/too_much_shared_memory.py", SMALL_MATMUL, "compile_error", {"shared_memory_exceeded"}, "shared memory"),
    ("faults/break_in_loop.py", SMALL_SOFTMAX, "compile_error", {"unsupported_in_kernel"}, "break"),
    ("faults/tf32_truncation.py", SMALL_MATMUL, "incorrect", {"tf32_truncation"}, "cvt.rna"),
    ("faults/raises.py", SMALL_SOFTMAX, "runtime_error", {"exception"}, "in forward"),
    ("faults/writes_input.py", SMALL_SOFTMAX, "incorrect", {"input_mutated"}, "x"),
    ("faults/wrong_shape.py", SMALL_SOFTMAX, "incorrect", {"wrong_shape"}, "shape"),
    ("faults/wrong_dtype.py", SMALL_SOFTMAX, "incorrect", {"wrong_dtype"}, "float64"),
    ("faults/wrong_structure.py", SMALL_SOFTMAX, "incorrect", {"wrong_structure"}, "(*, *)"),
    ("faults/weights_renamed.py", SMALL_MATMUL, "invalid", {"weights_mismatch"}, "linear.weight"),
    ("faults/unused_kernel.py", SMALL_SOFTMAX, "invalid", {"no_triton_kernel"}, "launches no Triton kernel"),
]
OUTSIDE = [
    ("faults/syntax_error.py", SMALL_SOFTMAX, "compile_error", {"syntax_error"}, "line 2"),
    ("faults/forbidden_import.py", SMALL_SOFTMAX, "invalid", {"forbidden_import"}, "os"),
    ("faults/uses_torch_compile.py", SMALL_SOFTMAX, "invalid", {"forbidden_construct"}, "torch.compile"),
    ("faults/no_kernel.py", SMALL_SOFTMAX, "invalid", {"no_triton_kernel"}, "@triton.jit"),
    ("faults/has_test_code.py", SMALL_SOFTMAX, "invalid", {"test_code"}, "get_inputs"),
    ("faults/no_entry_point.py", SMALL_SOFTMAX, "invalid", {"missing_entry_point"}, "ModelNew"),
    ("faults/subclasses_model.py", SMALL_SOFTMAX, "invalid", {"forbidden_construct"}, "Model"),
]
"""What the static gate turns away: it comes near no process."""


def named(evaluation: Evaluation, status: str, kinds: set[str], words: str) -> None:
    assert (evaluation.status, evaluation.findings[0].kind) == (status, evaluation.findings[0].kind)
    first = evaluation.findings[0]
    assert first.kind in kinds, evaluation.findings
    assert words in f"{first.message} {first.where} {first.cure}"
    assert not evaluation.usable
    assert evaluation.merit == (2.0,)


@pytest.mark.parametrize(("name", "reference", "status", "kinds", "words"), WRONG, ids=[row[0] for row in WRONG])
def test_a_planted_fault_is_named_and_the_next_candidate_unharmed(
    judge, name: str, reference: str, status: str, kinds: set[str], words: str
) -> None:
    named(judge(name, reference=reference), status, kinds, words)
    assert judge("right/softmax_one_block.py", reference=SMALL_SOFTMAX).status == "correct"


def test_what_the_gate_turns_away_is_named_and_the_next_candidate_unharmed(judge) -> None:
    for name, reference, status, kinds, words in OUTSIDE:
        evaluation = judge(name, reference=reference)
        named(evaluation, status, kinds, words)
        assert [rung.name for rung in evaluation.rungs] == ["static_gate"], name
    assert judge("right/softmax_one_block.py", reference=SMALL_SOFTMAX).status == "correct"


def test_library_calls_are_allowed_unless_the_task_says_otherwise(judge) -> None:
    allowed = judge("faults/library_call.py", reference=SMALL_MATMUL)
    assert allowed.status == "correct", allowed.reason
    assert allowed.triton_share is not None
    assert 0 < allowed.triton_share < 1
    forbidden = judge("faults/library_call.py", reference=SMALL_MATMUL, triton_only=True)
    assert (forbidden.status, forbidden.findings[0].kind) == ("invalid", "library_call")
    assert "addmm" in forbidden.findings[0].message


def test_ieee_rejects_what_tf32_allows(judge) -> None:
    evaluation = judge("right/matmul_bias_gelu.py", reference=MATMUL, precision="ieee")
    assert (evaluation.status, evaluation.findings[0].kind) == ("incorrect", "precision_loss")
    assert "ieee" in evaluation.findings[0].cure


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_low_precision_policies_cast_the_whole_module(judge, precision: Precision) -> None:
    evaluation = judge("right/softmax_one_block.py", precision=precision)
    assert evaluation.status == "correct", evaluation.reason
    assert evaluation.bound is not None
    assert evaluation.bound.dram_bytes == 2 * 2 * 4096 * 8192  # two bytes an element, read and written

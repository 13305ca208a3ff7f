"""Every planted wrong candidate gets its own status, kind and a message to act on; and nothing outlives it.

An ordinary run takes a few of them; the gate reads all.
"""

from collections.abc import Callable
from functools import cache

import pytest

from egg_graph.bench.trust.headers import Entry, read_entries
from egg_graph.evaluator import LocalEvaluator
from egg_graph.schema import Candidate, Evaluation, Hardware, KernelTask, Precision
from tests.paths import CORPUS, read_source
from tests.sample import in_sample, thorough

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
SMALL = {
    "softmax": SOFTMAX.replace("4096", "256").replace("8192", "512"),
    "linear_gelu": MATMUL.replace("1024", "128").replace("2048", "256").replace("4096", "512"),
}
"""By problem, where the full size is not the point: their long shapes are soon interpreted."""
ENTRIES = {entry.path.stem: entry for entry in read_entries([CORPUS / "faults", CORPUS / "bugs" / "mask_one_short.py"])}


def planted(name: str) -> Candidate:
    """A candidate of the corpus."""
    return Candidate(source=read_source(name), author="test", stage="algorithmic_structure", mode="seed")


pytestmark = pytest.mark.slow


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


@pytest.mark.parametrize(("name", "reference", "long"), in_sample(RIGHT, RIGHT[:1]))
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
        "integrity",
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


@thorough
def test_tensor_cores_are_seen_in_the_compiled_matrix_product(right) -> None:
    resources = right("right/matmul_bias_gelu.py", MATMUL).resources[0]
    assert sum(resources.tensor_core_instructions.values()) > 0
    assert resources.shared_bytes > 0


WORDS = {
    "wrong_answer": "0.9901 times the expected",
    "mask_one_short": "never written",
    "out_of_bounds_load": "x_ptr",
    "write_race": "softmax_kernel",
    "unwritten_output": "never written",
    "bf16_misuse": "bfloat16",
    "exit_zero": "exit status 0",
    "segfault": "in forward",
    "allocates_24_gb": "in forward",
    "too_much_shared_memory": "shared memory",
    "break_in_loop": "break",
    "tf32_truncation": "cvt.rna",
    "raises": "in forward",
    "writes_input": "x",
    "wrong_shape": "shape",
    "wrong_dtype": "float64",
    "wrong_structure": "(*, *)",
    "weights_renamed": "linear.weight",
    "unused_kernel": "launches no Triton kernel",
}
"""What the message, the place or the cure of the first finding must name. Status and kind stand in the header."""
HARD_ENDS = {"out_of_bounds_load", "exit_zero", "segfault", "allocates_24_gb"}
"""What ends its process, or runs into a limit."""
WORDS_OF_THE_GATE = {
    "syntax_error": "line 2",
    "forbidden_import": "os",
    "fork_bomb": "os",
    "uses_torch_compile": "torch.compile",
    "no_kernel": "@triton.jit",
    "has_test_code": "get_inputs",
    "no_entry_point": "ModelNew",
    "subclasses_model": "Model",
}
"""The same of what the gate turns away, which comes near no process."""
ELSEWHERE = {"infinite_loop", "infinite_kernel", "library_call"}
"""Judged by tests of their own: two need a short time limit, one other terms."""


def named(entry: Entry, evaluation: Evaluation, words: str) -> None:
    """The first finding is the expected one and says what to do."""
    first = evaluation.findings[0]
    assert evaluation.status in entry.header.expect, evaluation.reason
    assert len(entry.header.expect) == 1, "a fault has one status"
    assert first.kind in entry.header.finding, evaluation.findings
    assert words in f"{first.message} {first.where} {first.cure}"
    assert not evaluation.usable
    assert evaluation.merit == (2.0,)


SAMPLE = ["mask_one_short", "write_race", "segfault", "tf32_truncation", "weights_renamed"]


@pytest.mark.parametrize("name", in_sample(WORDS, SAMPLE))
def test_a_planted_fault_is_named_and_the_next_candidate_unharmed(judge, name: str) -> None:
    """The next candidate is the next fault, which gets a verdict of its own; after a hard end a right kernel too."""
    entry = ENTRIES[name]
    named(entry, judge(f"{entry.path.parent.name}/{name}.py", reference=SMALL[entry.header.problem]), WORDS[name])
    if name in HARD_ENDS:
        assert judge("right/softmax_one_block.py", reference=SMALL["softmax"]).status == "correct"


def test_what_the_gate_turns_away_is_named_and_the_next_candidate_unharmed(judge) -> None:
    for name, words in WORDS_OF_THE_GATE.items():
        evaluation = judge(f"faults/{name}.py", reference=SMALL["softmax"])
        named(ENTRIES[name], evaluation, words)
        assert [rung.name for rung in evaluation.rungs] == ["static_gate"], name
    assert judge("right/softmax_one_block.py", reference=SMALL["softmax"]).status == "correct"


def test_every_fault_is_judged() -> None:
    here = {name for name, entry in ENTRIES.items() if "cpu" in entry.header.where}
    assert here == {*WORDS, *WORDS_OF_THE_GATE, *ELSEWHERE}


@thorough
def test_library_calls_are_allowed_unless_the_task_says_otherwise(judge) -> None:
    allowed = judge("faults/library_call.py", reference=SMALL["linear_gelu"])
    assert allowed.status == "correct", allowed.reason
    assert allowed.triton_share is not None
    assert 0 < allowed.triton_share < 1
    forbidden = judge("faults/library_call.py", reference=SMALL["linear_gelu"], triton_only=True)
    named(ENTRIES["library_call"], forbidden, "addmm")
    assert "addmm" in forbidden.findings[0].message


@thorough
def test_ieee_rejects_what_tf32_allows(judge) -> None:
    evaluation = judge("right/matmul_bias_gelu.py", reference=SMALL["linear_gelu"], precision="ieee")
    assert (evaluation.status, evaluation.findings[0].kind) == ("incorrect", "precision_loss")
    assert "ieee" in evaluation.findings[0].cure


@pytest.mark.parametrize("precision", in_sample(["bf16", "fp16"], ["bf16"]))
def test_low_precision_policies_cast_the_whole_module(judge, precision: Precision) -> None:
    evaluation = judge("right/softmax_one_block.py", reference=SMALL["softmax"], precision=precision)
    assert evaluation.status == "correct", evaluation.reason
    assert evaluation.bound is not None
    assert evaluation.bound.dram_bytes == 2 * 2 * 256 * 512  # two bytes an element, read and written

"""Lanes masked off without `other`: what is told of an answer that is wrong with zeros there, too."""

import pytest

from egg_graph.evaluator.evidence.builder import EvaluationBuilder
from egg_graph.evaluator.gpuless.masked_lanes import CURE, judge_zeroed, name_loads, name_zeros, right_with_zeros
from egg_graph.evaluator.gpuless.process_outcome import ProcessOutcome
from egg_graph.schema import Finding, Hardware, KernelResources, KernelTask

POISONED = Finding(kind="non_finite", message="9 of 9 elements are not finite")
CUT = Finding(kind="tf32_truncation", message="what a plain fp32 tl.dot makes")


def outcome(*findings: Finding) -> ProcessOutcome:
    made = ProcessOutcome(undefined_loads=["kernel k, line 7"])
    made.sections["correctness"].findings += findings
    return made


def test_a_truncating_product_is_told_before_undefined_lanes() -> None:
    found = outcome(POISONED)
    name_loads(found, outcome(CUT))
    told = found.sections["correctness"].findings
    assert [finding.kind for finding in told] == ["tf32_truncation", "non_finite"]
    assert told[1].cure == CURE and "kernel k, line 7" in told[1].message


def test_another_wrong_answer_is_told_by_its_loads_alone() -> None:
    found = outcome(POISONED, CUT)
    name_loads(found, outcome(Finding(kind="wrong_values", message="a few are off"), CUT))
    assert [finding.kind for finding in found.sections["correctness"].findings] == ["non_finite", "tf32_truncation"]


def test_what_is_wrong_on_other_inputs_alone_is_told_beside_the_zeros() -> None:
    found, zeroed = outcome(POISONED), outcome()
    zeroed.sections["other_inputs"].findings.append(Finding(kind="wrong_values", message="the variance cancels"))
    assert right_with_zeros(found, zeroed) and not right_with_zeros(found, outcome(CUT))
    name_zeros(zeroed, found.undefined_loads)
    (told,) = zeroed.sections["other_inputs"].findings
    assert (
        told.message.startswith("the variance cancels; masked lanes count as 0") and "kernel k, line 7" in told.message
    )


@pytest.mark.parametrize(
    ("kernel", "undefined", "outcome"), [("k", False, "skipped"), ("k", True, "failed"), ("other", False, "failed")]
)
def test_lanes_are_zeros_where_the_code_of_their_kernel_says_so(
    h200: Hardware, kernel: str, undefined: bool, outcome: str
) -> None:
    task, builder = KernelTask(name="x", reference="", target=h200), EvaluationBuilder()
    compiled = KernelResources(
        kernel=kernel, target="sm_90", grid=(1,), num_warps=4, num_stages=1, undefined_lanes=undefined
    )
    judge_zeroed(["kernel k, line 7"], [compiled], builder, task)
    assert [(rung.name, rung.outcome) for rung in builder.rungs] == [("masked_lanes", outcome)]

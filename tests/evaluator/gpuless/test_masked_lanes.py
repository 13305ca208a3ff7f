"""Lanes masked off without `other`: what is told of an answer that is wrong with zeros there, too."""

from egg_graph.evaluator.gpuless.executor import ProcessOutcome
from egg_graph.evaluator.gpuless.masked_lanes import CURE, name_loads
from egg_graph.schema import Finding

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

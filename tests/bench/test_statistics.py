"""Statistics count every problem, failures as 1.0, and have intervals that hold."""

import math
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egg_graph.bench import Row, summarize
from egg_graph.bench.ablation import PARTS, ablations, check_parts, knobs_without
from egg_graph.bench.statistics import TUNED, by_group, kernelbench_numbers
from egg_graph.context import Context
from egg_graph.schema import BadInput
from tests.paths import ROOT


def row(status="faster", ratio=None, name="x", **fields):
    spread = {} if ratio is None else {"ratio_low": ratio / 1.01, "ratio_high": ratio * 1.01}
    return Row(name=name, task="", status=status, reason="", ratio=ratio, **spread, **fields)


def test_every_problem_counts_and_a_failure_is_one():
    rows = [row(ratio=4.0), row("slower", 0.5), row("reference_kept"), row("infra_error"), row("correct")]
    found = summarize(rows)
    assert (found.problems, found.usable, found.timed, found.faster, found.kept, found.failed) == (5, 3, 2, 1, 1, 1)
    assert found.geometric_mean.value == pytest.approx(2.0 ** (1 / 5))
    assert found.median.value == 1.0
    assert (found.lowest, found.highest) == (0.5, 4.0), "no winner is clipped, no loser left out"
    assert {p: share.value for p, share in found.fast.items()} == {"0": 0.6, "1": 0.2, "1.5": 0.2, "2": 0.2}


def test_a_right_kernel_that_was_not_handed_over_counts_as_right_and_as_one():
    kept = row("reference_kept", found_right=True, found_ms=2.0, found_ratio=0.5, kernelbench=True, eager_fp32_ms=3.0)
    found = summarize([row(ratio=4.0), kept])
    assert (found.right, found.usable, found.kept) == (2, 1, 1)
    assert found.geometric_mean.value == pytest.approx(2.0) and found.fast["0"].value == 1.0
    assert kernelbench_numbers([kept]).geometric_mean_correct_only == 1.5, "by its own definition it is counted"


def test_what_was_not_timed_has_no_figures():
    found = summarize([row("correct"), row("reference_kept")])
    assert found.usable == 1
    assert found.geometric_mean is None and found.fast == {} and found.against == {} and found.roofline is None


def test_each_baseline_has_its_own_mean_and_tuned_pytorch_none():
    times = {"kernel_ms": 1.0, "eager_ms": 3.0, "compile_ms": 2.0, "eager_fp32_ms": 8.0, "floor_ms": 0.5}
    found = summarize([row(ratio=2.0, **times), row("reference_kept", eager_ms=1.0, floor_ms=0.25)])
    against = {name: round(interval.value**2, 6) for name, interval in found.against.items()}
    assert against == {"better of eager and torch.compile": 2, "eager": 3, "torch.compile": 2, "eager fp32": 8}
    assert found.roofline.value == pytest.approx(math.sqrt(0.5 * 0.25))


def test_tuned_pytorch_has_a_mean_of_all_and_of_every_class():
    times = {"kernel_ms": 1.0, "eager_ms": 3.0}
    convolutions = [
        row(ratio=3.0, tuned_ms=2.0, operator_class="convolution 2D", **times),
        row(ratio=3.0, tuned_ms=0.5, operator_class="convolution 3D", **times),
        row("reference_kept", tuned_ms=2.0, eager_ms=3.0, operator_class="convolution 3D"),
    ]
    found = by_group([*convolutions, row(ratio=3.0, tuned_ms=3.0, operator_class="softmax", **times)])
    means = {group.group: round(group.against[TUNED].value, 6) for group in found if TUNED in group.against}
    assert means == {
        "all": round(3 ** (1 / 4), 6), "any convolution": 1.0, "convolution 2D": 2.0,
        "convolution 3D": round(0.5**0.5, 6), "softmax": 3.0,
    }  # fmt: skip


@settings(deadline=None, max_examples=20)
@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=20))
def test_intervals_hold_their_figure_and_shares_fall(ratios):
    found = summarize([row(ratio=ratio) for ratio in ratios])
    assert min(ratios) * 0.999 <= found.geometric_mean.value <= max(ratios) * 1.001
    assert found.geometric_mean.low <= found.geometric_mean.value * 1.01
    assert found.geometric_mean.high >= found.geometric_mean.value * 0.99
    shares = [share.value for share in found.fast.values()]
    assert shares == sorted(shares, reverse=True)


def test_more_problems_narrow_an_interval():
    few, many = ([row(ratio=r) for r in (0.8, 1.0, 1.5, 3.0)] * n for n in (1, 25))
    width = [found.geometric_mean.high - found.geometric_mean.low for found in map(summarize, (few, many))]
    assert width[1] < width[0] / 2


def test_groups_are_sections_convolutions_and_classes():
    rows = [
        row(ratio=2.0, section="level1", operator_class="convolution 2D"),
        row(ratio=3.0, section="level1", operator_class="transposed convolution 3D"),
        row(ratio=1.0, section="level2", operator_class="softmax"),
    ]
    groups = {group.group: group.problems for group in by_group(rows)}
    assert groups == {
        "all": 3,
        "level1": 2,
        "level2": 1,
        "any convolution": 2,
        "convolution 2D": 1,
        "softmax": 1,
        "transposed convolution 3D": 1,
    }
    assert [group.group for group in by_group(rows[:1])] == ["all"], "no group tells the same problems twice"


def test_kernelbenchs_numbers_follow_its_definitions():
    """Speeds 4, 0.5 and 2; the last one is wrong by its criterion, and counts only among the problems."""
    known = [(1.0, 4.0, True), (2.0, 1.0, True), (1.0, 2.0, False)]
    rows = [row(ratio=1.0, found_ms=k, eager_fp32_ms=e, kernelbench=right) for k, e, right in known]
    found = kernelbench_numbers([*rows, row("reference_kept")])
    assert (found.problems, found.correct) == (4, 2)
    assert found.geometric_mean_correct_only == pytest.approx(math.sqrt(2.0))
    assert found.geometric_mean_correct_and_faster_only == pytest.approx(4.0)
    assert found.fast == {"0": 0.5, "1": 0.25, "1.5": 0.25, "2": 0.25}
    assert kernelbench_numbers([row("correct")]) is None


def test_an_ablation_is_of_matched_pairs():
    rows = [
        row(ratio=4.0, name="a", seconds=10.0),
        row(ratio=1.0, name="b", seconds=10.0),
        row(ratio=2.0, name="c"),
        row(ratio=1.0, name="a", without="tuner", seconds=5.0),
        row("reference_kept", name="b", without="tuner", seconds=5.0),
    ]
    (found,) = ablations(rows, ["tuner"])
    assert (found.pairs, found.usable, found.usable_whole, found.better, found.worse) == (2, 1, 2, 1, 0)
    assert found.gain.value == pytest.approx(2.0), (
        "geometric mean of 4 and 1; the problem without a partner is left out"
    )
    assert found.gain.low <= 2.0 <= found.gain.high
    assert found.seconds_ratio == 0.5


def test_only_what_knobs_switch_off_can_be_left_out():
    whole = Context()
    assert knobs_without("tuner", whole) == {"tune": False}
    assert knobs_without("contender", whole) == {"expert_seed": False}
    assert knobs_without("stage-two", whole) == {"stages": ("algorithmic_structure",)}
    assert knobs_without("tensor-tiling", whole)["stages"].count("tensor_tiling") == 0
    flat = knobs_without("hierarchy", whole)
    assert flat == {"stages": ("algorithmic_structure",), "max_optimizations": 4 * whole.max_optimizations}
    with pytest.raises(BadInput, match="no knob leaves out 'luck'; choose among tuner, stage-one"):
        check_parts(["tuner", "luck"])
    with pytest.raises(BadInput, match="stage-two leaves the stages"):
        knobs_without("stage-two", Context(stages=("algorithmic_structure",)))


def test_the_docs_name_every_part_and_every_part_has_its_knobs():
    table = (ROOT / "docs" / "bench.md").read_text().split("| part | ")[1].split("\n\n")[0]
    named = {word for line in table.splitlines() for word in re.findall(r"`([a-z-]+)`", line.split("|")[1])}
    assert named == set(PARTS)
    for part in PARTS:
        assert Context(**knobs_without(part, Context())) != Context() or part == "principles"

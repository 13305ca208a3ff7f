"""The panel of a verdict: every heading stands where there is something under it."""

import io

from rich.console import Console

from egg_graph.cli.verdict import show_verdict
from egg_graph.schema import Evaluation, Timing


def shown(**fields) -> str:
    console = Console(file=io.StringIO(), width=160)
    evaluation = Evaluation(candidate="c", task="t", status="correct", reason="right", **fields)
    show_verdict(console, evaluation, title="title")
    return console.file.getvalue()


def test_both_sides_are_told_on_the_host():
    timing = Timing(
        candidate_ms=0.1, eager_ms=0.2, baseline="eager", ratio=2.0, ratio_low=1.9, ratio_high=2.1, pairs=40,
        candidate_host_ms=0.15, baseline_host_ms=0.21,
    )  # fmt: skip
    assert "0.15 ms against 0.21 ms, launches included" in shown(timing=timing)


def test_what_is_not_preserved_stands_under_a_heading_of_its_own():
    assert "not preserved" not in shown()
    text = shown(not_preserved=("infinities (minus_infinite inputs: got nan)",))
    assert text.index("not preserved") < text.index("infinities (minus_infinite inputs: got nan)")

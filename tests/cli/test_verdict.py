"""The panel of a verdict: every heading stands where there is something under it."""

import io

from rich.console import Console

from egg_graph.cli.verdict import show_verdict
from egg_graph.schema import Evaluation


def shown(**fields) -> str:
    console = Console(file=io.StringIO(), width=160)
    evaluation = Evaluation(candidate="c", task="t", status="correct", reason="right", **fields)
    show_verdict(console, evaluation, title="title")
    return console.file.getvalue()


def test_what_is_not_preserved_stands_under_a_heading_of_its_own():
    assert "not preserved" not in shown()
    text = shown(not_preserved=("infinities (minus_infinite inputs: got nan)",))
    assert text.index("not preserved") < text.index("infinities (minus_infinite inputs: got nan)")

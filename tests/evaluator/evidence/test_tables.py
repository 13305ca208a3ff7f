"""A finding or a rung is one row of its table: status, page and verdict follow from it."""

from typing import get_args

import pytest

from egg_graph.evaluator.evidence import findings, tables
from egg_graph.evaluator.evidence.builder import EvaluationBuilder
from egg_graph.evaluator.evidence.findings import FINDINGS, FindingRow, rejecting, status_of
from egg_graph.evaluator.evidence.rungs import RUNGS, RungName
from egg_graph.schema import Finding, FindingKind
from tests.paths import ROOT


def test_every_kind_and_every_rung_has_its_row() -> None:
    assert set(FINDINGS) == set(get_args(FindingKind))
    assert set(RUNGS) == set(get_args(RungName))


def test_the_page_is_the_tables() -> None:
    page = (ROOT / "docs/evaluator/findings.md").read_text(encoding="utf-8")
    assert page == tables.fill_page(page), "write it anew: make docs"
    assert all(f"| `{kind}` |" in page for kind in (*FINDINGS, *RUNGS))


def test_a_new_finding_is_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    row = FindingRow("incorrect", "A toy breaks.", "Mend the toy.", "both")
    monkeypatch.setitem(FINDINGS, "toy", row)  # type: ignore[arg-type]
    toy = Finding.model_construct(kind="toy", message="the toy is broken", where="", cure="")  # type: ignore[arg-type]
    assert rejecting([toy]) == (toy,)
    assert status_of([toy]) == "incorrect"
    assert "| `toy` | incorrect | A toy breaks. | Mend the toy. | both |" in tables.findings_table()
    builder = EvaluationBuilder()
    builder.fail("correctness", [toy], shape="shrunk")
    assert builder.failed
    assert builder.outcome_of("correctness", shape="shrunk").statement == "the toy is broken"
    assert findings.reason_of(toy) == "the toy is broken"

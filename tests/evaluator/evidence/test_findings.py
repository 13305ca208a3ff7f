"""Every kind of finding has a status."""

from egg_graph.evaluator.evidence.findings import FINDINGS, status_of
from egg_graph.schema import Finding, FindingKind


def test_every_kind_of_finding_has_its_status() -> None:
    assert set(FINDINGS) == set(FindingKind.__args__)  # type: ignore[attr-defined]
    spill = Finding(kind="register_spill", message="8 bytes")
    assert status_of([spill]) == "correct"
    assert status_of([spill, Finding(kind="crashed", message="")]) == "runtime_error"

"""The findings of one candidate's static check, in the order in which they were made."""

from __future__ import annotations

import ast

from egg_graph.schema import Finding, FindingKind


class Report:
    """Collects findings and the lines they point at."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []

    def add(self, kind: FindingKind, node: ast.AST, message: str, cure: str = "") -> None:
        """Add a finding that points at a node's line."""
        line = getattr(node, "lineno", None)
        self.findings.append(Finding(kind=kind, message=message, where=f"line {line}" if line else "", cure=cure))

    def refuse(self, node: ast.AST, message: str, cure: str = "remove it") -> None:
        """Add a finding of kind `forbidden_construct`."""
        self.add("forbidden_construct", node, message, cure)

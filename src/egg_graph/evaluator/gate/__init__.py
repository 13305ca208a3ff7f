"""What a candidate may contain: the static gate before it runs, and the tripwire (`audit`) while it runs."""

from egg_graph.evaluator.gate.static_gate import check
from egg_graph.evaluator.gate.test_code import without_test_code

__all__ = ["check", "without_test_code"]

"""What a candidate may contain: the static gate before it runs, and the tripwire (`audit`) while it runs."""

from egg_graph.evaluator.gate.functions import functions_of
from egg_graph.evaluator.gate.static_gate import check
from egg_graph.evaluator.gate.test_code import without_test_code

__all__ = ["check", "functions_of", "without_test_code"]

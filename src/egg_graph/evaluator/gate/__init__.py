"""What a candidate may contain: the static gate before it runs, and the tripwire (`audit`) while it runs."""

from egg_graph.evaluator.gate.static_gate import check

__all__ = ["check"]

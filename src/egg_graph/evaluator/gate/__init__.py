"""What a candidate may contain: the static gate before it runs, and the tripwire (`audit`) while it runs."""

from egg_graph.evaluator.gate.functions import functions_of
from egg_graph.evaluator.gate.judged_text import judged_text
from egg_graph.evaluator.gate.static_gate import check

__all__ = ["check", "functions_of", "judged_text"]

"""May this candidate replace this reference, and what is the evidence? Usable alone: needs torch, triton and pydantic."""

from egg_graph.evaluator.protocol import Evaluator

__all__ = ["Evaluator"]

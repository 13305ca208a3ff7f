"""The evaluator alone: a module and a kernel in, a verdict out. It needs no model."""

from egg_graph import build_judging_graph

graph = build_judging_graph()

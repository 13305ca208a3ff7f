"""Shapes of a few dozens of elements, for kernels that the interpreter has time for in part alone at larger ones.

A kernel with one program an element takes minutes at ten thousand elements. What it does at their edges, and whether
all of its programs together write all of the answer, a small shape shows.
"""

from __future__ import annotations

from egg_graph.evaluator.problem.shapes import Kind, search_shapes

LEVELS: dict[Kind, tuple[tuple[int, ...], ...]] = {
    "shrunk": ((6, 5, 4), (12, 10, 8), (16,)),
    "awkward": ((7, 5, 3), (11, 9, 7), (13, 11)),
}
"""Sizes of wide knobs, several so that they differ: the smallest come first."""


def choose_small_shapes(source: str) -> list[dict[str, int]]:
    """Choose overrides of small shapes at which the reference runs; none if it runs at none.

    Raises:
        BadInput: if the reference does not run at its own shape.
    """
    search = search_shapes(source)
    tried = ((search.at_level(kind, level) for level in levels) for kind, levels in LEVELS.items())
    return [found for shapes in tried if (found := next(filter(None, shapes), None))]

"""What makes two sweeps alike: the same kernel but for its knobs, and shapes of one class."""

import ast
import re

from egg_graph.schema import BadInput, Baseline
from egg_graph.schema.program import program_digest
from egg_graph.tuning.literals import find, parse

SMALL = 16
"""Sizes up to this one count as they are; of a larger one counts whether it is a multiple of this."""
_TENSOR = re.compile(r"\[([\d, ]*)\]")


def kernel_digest(source: str) -> str:
    """Equal for kernels that differ in the values of CONFIG, in SPACE, in comments, docstrings and formatting alone.

    Returns:
        12 hex digits.
    """
    try:
        tree = parse(source)
        config, space = find(tree, "CONFIG"), find(tree, "SPACE")
    except BadInput:  # no literal that a tuner could turn
        return program_digest(source)
    if config is not None:
        config.value.values = [ast.Constant(None) for _ in config.value.values]
    if space is not None:
        tree.body.remove(space.statement)
    return program_digest(ast.unparse(tree))


def shape_class(baseline: Baseline) -> str:
    """The class of a task's shapes: dtype and sizes of each input and output, and the count of parameters.

    A size up to 16 counts as it is. A larger one counts as the next power of two, with `~` behind it where it is no
    multiple of 16, which decides how wide an access may be. The count of parameters counts as a size does. So one
    class holds `float32[16, 1000]` and `float32[16, 1016]`, and not `float32[16, 1008]`.
    """

    def sizes(match: re.Match[str]) -> str:
        return f"[{', '.join(_size(int(n)) for n in match[1].split(',') if n.strip())}]"

    ins, outs = (
        ", ".join(_TENSOR.sub(sizes, form) for form in forms.values()) for forms in (baseline.inputs, baseline.outputs)
    )
    return f"{ins} -> {outs}; {_size(baseline.parameters)} parameters"


def _size(n: int) -> str:
    """A size as its class tells it."""
    if n <= SMALL:
        return str(n)
    return f"{1 << (n - 1).bit_length()}{'~' if n % SMALL else ''}"

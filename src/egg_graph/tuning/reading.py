"""Whether a module reads the knobs that its SPACE turns. Nothing is executed."""

import ast

from egg_graph.schema import ConfigSpace
from egg_graph.tuning.literals import parse


def unread(source: str, space: ConfigSpace) -> dict[str, str]:
    """Knobs of SPACE that the module never reads, so that every value would give the same kernel.

    Where CONFIG is used as a whole (`**CONFIG`, `CONFIG[name]`, `CONFIG.get(...)`), every knob may be read.

    Args:
        source: the module's text.
        space: its SPACE, as `read_knobs` read it; that of a text that does not parse is empty.

    Returns:
        One line for each knob.
    """
    turned = {knob: stage for stage, knobs in space.items() for knob in knobs}
    if not turned:
        return {}
    nodes = list(ast.walk(parse(source)))
    named = [key for node in nodes if isinstance(node, ast.Subscript) and (key := _key(node)) is not None]
    if sum(map(_is_config, nodes)) > len(named):
        return {}
    reads = ", ".join(dict.fromkeys(named)) or "none"
    return {
        knob: f"SPACE[{stage!r}][{knob!r}] turns a knob that the module never reads (of CONFIG it reads {reads})"
        for knob, stage in turned.items()
        if knob not in named
    }


def _is_config(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "CONFIG" and isinstance(node.ctx, ast.Load)


def _key(node: ast.Subscript) -> str | None:
    """The knob of `CONFIG["X"]`; None for every other subscript."""
    if _is_config(node.value) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
        return node.slice.value
    return None

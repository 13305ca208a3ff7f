"""Which arguments of the constructor, and which sizes of the inputs, had one value in all that was judged."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from egg_graph.evaluator.problem.knobs import shape_knobs
from egg_graph.evaluator.problem.reference import Reference, load_reference
from egg_graph.evaluator.problem.shapes import SMALL
from egg_graph.evaluator.wire import exchange


def unvaried_arguments(source: str, judged: Iterable[Mapping[str, int]]) -> dict[str, Any]:
    """Arguments that `Model` is given at full shape and that are the same at every judged shape.

    Args:
        source: the reference's source.
        judged: overrides of the shapes that answers were judged at.

    Returns:
        Values by the name in `Model.__init__`'s signature, in its order. Defaults are not among them.

    Raises:
        BadInput: if `get_init_inputs()` fails at a shape.
    """
    full = _named_arguments(load_reference(source))
    if not full:
        return {}
    others = [_named_arguments(load_reference(source, overrides)) for overrides in judged if overrides]
    return {
        name: value
        for name, value in full.items()
        if all(name in other and _encoded(other[name]) == _encoded(value) for other in others)
    }


def unvaried_sizes(source: str, judged: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Integers above `SMALL` that only inputs depend on, and that are the same at every judged shape.

    Such is the length of a loop that the reference's forward takes step by step: with another one it has another form.
    Takes and raises what `unvaried_arguments` does.
    """
    shapes = list(judged)
    full = shape_knobs(source)
    same = {name for name, size in full.items() if all(shape.get(name, size) == size for shape in shapes)}
    own = _named_arguments(load_reference(source))
    return {name: full[name] for name in full if name in same and full[name] > SMALL and _is_free(source, name, own)}


def _is_free(source: str, name: str, own: dict[str, Any]) -> bool:
    """Whether the constructor's arguments are its `own` ones with another value of this integer, too."""
    moved = _named_arguments(load_reference(source, {name: shape_knobs(source)[name] + 1}))
    return _encoded(moved) == _encoded(own)


def _named_arguments(reference: Reference) -> dict[str, Any]:
    """What `get_init_inputs` passes, by name; those that `**kwargs` collects come under their own names."""
    args, kwargs = reference.init_arguments()
    signature = inspect.signature(reference.model_class)
    named: dict[str, Any] = {}
    for name, value in signature.bind(*args, **kwargs).arguments.items():
        collects = signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD
        named.update(value if collects else {name: value})
    return named


def _encoded(value: Any) -> Any:
    """A value as JSON, so that tensors compare as one truth value."""
    return exchange.encode(value, exchange.inline)

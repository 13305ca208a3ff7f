"""Which arguments of the reference's constructor had one value in all that was judged."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from egg_graph.evaluator.problem.reference import Reference, load_reference
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

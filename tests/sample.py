"""What an ordinary test run leaves to `make test-all`, and what the run at hand selected."""

from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Any, TypeVar

import pytest

T = TypeVar("T", bound=Hashable)

thorough = pytest.mark.thorough
"""Marks a test that only `make test-all` runs: it takes long, and others show the like or it seldom breaks."""


def first_of_each(values: Iterable[T], *traits: Callable[[T], Hashable]) -> set[T]:
    """The first value that shows each trait."""
    values = list(values)
    return {next(v for v in values if trait(v) == shown) for trait in traits for shown in {trait(v) for v in values}}


def in_sample(values: Iterable[T], sample: Collection[T]) -> list[Any]:
    """Parameters of a test, of which those outside of the sample are marked `thorough`; a tuple is several."""
    return [
        pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=() if value in sample else thorough)
        for value in values
    ]


def selected(request: pytest.FixtureRequest, *names: str) -> list[tuple[Any, ...]]:
    """The values of some parameters in those tests of the requesting module that were not deselected."""
    given = [
        item.callspec.params
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.path == request.path and hasattr(item, "callspec")
    ]
    return sorted({tuple(params[name] for name in names) for params in given if params.keys() >= set(names)})

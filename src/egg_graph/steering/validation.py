"""Check the state where people and other programs can change it: at an edit, and before every step.

An edit over JSON brings dicts, and a strict checkpointer that does not know our types loads dicts: both become the
values of `egg_graph.schema` again.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from langgraph.types import Overwrite
from pydantic import TypeAdapter, ValidationError

from egg_graph.context import make_context
from egg_graph.schema import BadInput
from egg_graph.state import OVERWRITE, InputState, State


def check_state(values: Mapping[str, Any]) -> dict[str, Any]:
    """Make the values of the state's keys what the annotations of `State` say.

    Keys of the caller's own stay as they are; so do those of the input, which `prepare` reads.

    Raises:
        BadInput: if a value cannot become what its key holds.
    """
    known, holders = _classes(), _holders()
    return {
        k: v if k not in known or type(v) in known[k] or (not v and type(v) is holders.get(k)) else _check(k, v)
        for k, v in values.items()
    }


def check_edit(values: Any, keys: frozenset[str]) -> Any:
    """Check a person's edit of the state before it is applied.

    Args:
        values: what `update_state` was given; all but a mapping is LangGraph's own business.
        keys: the keys that the state has.

    Raises:
        BadInput: if the state has no such key, or a value cannot become what its key holds.
    """
    if not isinstance(values, Mapping):
        return values
    unknown = sorted(str(key) for key in values if key not in keys)
    if unknown:
        raise BadInput(f"the state has no key {unknown[0]!r}; its keys are {', '.join(sorted(keys))}")
    if "knobs" in values:
        make_context(_check("knobs", values["knobs"]))
    return {key: _check_replaced(key, value) for key, value in values.items()}


def checked(step: Callable[..., Any]) -> Callable[..., Any]:
    """Let a node or a route see a checked state."""
    if inspect.iscoroutinefunction(step):

        @functools.wraps(step)
        async def wait(state: Any, *args: Any, **kwargs: Any) -> Any:
            return await step(check_state(state), *args, **kwargs)

        return wait

    @functools.wraps(step)
    def run(state: Any, *args: Any, **kwargs: Any) -> Any:
        return step(check_state(state), *args, **kwargs)

    return run


def _check_replaced(key: str, value: Any) -> Any:
    """Check a value, or the one that `Overwrite` puts in place of all that a key has gathered."""
    if isinstance(value, Overwrite):
        return Overwrite(_check_replaced(key, value.value))
    if isinstance(value, Mapping) and set(value) == {OVERWRITE}:
        return {OVERWRITE: _check_replaced(key, value[OVERWRITE])}
    return _check(key, value) if key in _adapters() else value


def _check(key: str, value: Any) -> Any:
    try:
        return _adapters()[key].validator.validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join([key, *(str(part) for part in first["loc"])])
        given = " ".join(repr(first["input"]).split())
        raise BadInput(
            f"state key {key!r}: {where}: {first['msg']}, not {given[:80]}{'...' * (len(given) > 80)}"
        ) from error


@cache
def _adapters() -> dict[str, TypeAdapter[Any]]:
    return {key: TypeAdapter(hint) for key, hint in get_type_hints(State).items()}


@cache
def _holders() -> dict[str, Any]:
    """For each key that holds a list or a dict, which of the two: where it is empty, nothing in it can be wrong."""
    return {key: get_origin(hint) for key, hint in get_type_hints(State).items() if get_origin(hint) in (list, dict)}


@cache
def _classes() -> dict[str, frozenset[type]]:
    """For each key that `check_state` checks, the classes whose instances are already what its annotation says."""
    hints = {key: hint for key, hint in get_type_hints(State).items() if key not in InputState.__annotations__}
    members = {
        key: get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,) for key, hint in hints.items()
    }
    return {key: frozenset(m for m in found if isinstance(m, type)) for key, found in members.items()}

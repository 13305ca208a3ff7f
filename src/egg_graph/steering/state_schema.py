"""Keys that a caller adds to the state for nodes of its own."""

from typing import Any, NotRequired, Required, get_origin, get_type_hints

from typing_extensions import TypedDict

from egg_graph.schema import BadInput
from egg_graph.state import InputState, OutputState, State


def extend_schemas(state_schema: Any) -> tuple[Any, Any]:
    """Make the schemas of input and output for a state that derives from ours: both gain the keys that it adds.

    Raises:
        BadInput: if it does not derive from `State`.
    """
    hints = get_type_hints(state_schema, include_extras=True)
    if missing := sorted(State.__annotations__.keys() - hints.keys()):
        raise BadInput(
            f"state_schema={state_schema.__name__} lacks the key {missing[0]!r}: let it derive from egg_graph.State"
        )
    own = {key: _optional(hint) for key, hint in hints.items() if key not in State.__annotations__}
    if not own:
        return InputState, OutputState
    return _extend(InputState, own), _extend(OutputState, own)


def _optional(hint: Any) -> Any:
    return hint if get_origin(hint) in (Required, NotRequired) else NotRequired[hint]


def _extend(schema: Any, own: dict[str, Any]) -> Any:
    keys = {**get_type_hints(schema, include_extras=True), **own}
    extended = TypedDict(schema.__name__, keys, total=schema.__total__)  # type: ignore[misc]
    extended.__doc__ = schema.__doc__
    return extended

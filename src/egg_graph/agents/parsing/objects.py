"""Read the JSON object in an answer, even amid prose, inside another object, or where it is only almost JSON."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from egg_graph.agents.parsing.fences import find_blocks
from egg_graph.agents.parsing.lenient import NotAnObject, read_lenient
from egg_graph.agents.parsing.reply import Reply, Unreadable, answer_text

_REQUEST = "Answer again with the JSON object alone."
_EFFORT = 4
"""How often, on the whole, each character may be looked at for an object that begins there."""
_MAX_STARTS = 1000
"""Most opening braces that are tried."""
_DECODER = json.JSONDecoder(strict=False)


class Object(NamedTuple):
    """The object of an answer."""

    values: dict[str, Any]
    mended: tuple[str, ...] = ()
    """What was mended so that it could be read."""


def read_object(reply: Reply, wanted: Sequence[str]) -> Object:
    """Read the object with most of the `wanted` keys; the last one where several have as many.

    Keys are normalised to lower case with underscores ("modification plan" -> "modification_plan"). An object with more
    of the keys than the one around it counts in its place, together with what only the other one says.

    Raises:
        Unreadable: if the answer is empty, too long or cut off, or holds no object with any of the keys.
    """
    text = answer_text(reply, _REQUEST)
    best = Object({})
    for source in [*(block.text for block in find_blocks(text)), text]:
        for found in _objects(source):
            candidate = _innermost(found, wanted)
            if _count(candidate.values, wanted) >= max(1, _count(best.values, wanted)):
                best = candidate
        if _count(best.values, wanted) == len(wanted):
            return best
    if best.values:
        return best
    reason = "it was cut off by the output limit" if reply.truncated else f"it holds no JSON object with {wanted[0]!r}"
    raise Unreadable(reason, _REQUEST)


def _count(values: dict[str, Any], wanted: Sequence[str]) -> int:
    return sum(key in values for key in wanted)


def _innermost(found: Object, wanted: Sequence[str]) -> Object:
    """The object, or one inside it that has more of the wanted keys."""
    best, waiting = found, [(value, key) for key, value in found.values.items()]
    while waiting:
        value, key = waiting.pop()
        if isinstance(value, list):
            waiting += [(entry, key) for entry in value]
        elif isinstance(value, dict):
            inner = _normalised(value)
            waiting += [(entry, name) for name, entry in inner.items()]
            if _count(inner, wanted) > _count(best.values, wanted):
                outer = {name: entry for name, entry in found.values.items() if name in wanted}
                best = Object(outer | inner, (*found.mended, f"the object stood inside {key!r}"))
    return best


def _objects(text: str) -> Iterator[Object]:
    """Every outermost `{...}` that can be read as an object."""
    effort, start = _EFFORT * len(text), text.find("{")
    for _ in range(_MAX_STARTS):
        if start < 0 or effort <= 0:
            return
        try:
            found, end = _read(text, start)
        except NotAnObject as failure:
            effort -= failure.at - start
            end = start + 1
        else:
            yield found
        start = text.find("{", end)


def _read(text: str, start: int) -> tuple[Object, int]:
    """The object that begins at a brace, and the index behind it. Raises `NotAnObject` where there is none."""
    try:
        values, end = _DECODER.raw_decode(text, start)
        return Object(_normalised(values)), end
    except (ValueError, RecursionError):
        values, end = read_lenient(text, start)
        return Object(_normalised(values), ("malformed JSON read by its plain meaning",)), end


def _normalised(values: dict[str, Any]) -> dict[str, Any]:
    return {
        "_".join(str(key).lower().replace("-", " ").replace("_", " ").split()): entry for key, entry in values.items()
    }

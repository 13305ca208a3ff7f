"""Merge captures of one reference at several shapes into one graph: a number that differs becomes a vector."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import JsonValue

from egg_graph.expert.capture.errors import CannotCapture
from egg_graph.expert.capture.graph import CapturedGraph, Node, Placeholder


@dataclass
class ShapeCapture:
    """The exported program at one shape, as plain data."""

    attributes: dict[str, int | float]
    """Integers and finite floats that the module holds, by their qualified names."""
    placeholders: list[dict[str, Any]] = field(default_factory=list)
    nodes: list[dict[str, Any]] = field(default_factory=list)
    """Operator calls; `defaults` and `keyword_defaults` of one are those of the arguments that it leaves out."""
    outputs: JsonValue = None
    mutations: dict[str, str] = field(default_factory=dict)
    """Qualified buffer name -> the node whose value it takes."""


def skeleton(capture: ShapeCapture) -> list[Any]:
    """Return what must agree between captures: the operators and their data flow, without numbers."""
    return [
        *((p["kind"], p["target"]) for p in capture.placeholders),
        *((n["op"], *(_shape_of_args(part) for part in _all_arguments(n))) for n in capture.nodes),
    ]


def _all_arguments(node: dict[str, Any]) -> tuple[list[JsonValue], dict[str, JsonValue]]:
    """Return a call's arguments with the defaults of those that it leaves out."""
    return [*node["args"], *node["defaults"]], {**node["keyword_defaults"], **node["kwargs"]}


def _shape_of_args(arg: Any) -> Any:
    if isinstance(arg, dict):
        return {k: _shape_of_args(v) if k != "node" else v for k, v in arg.items()}
    if isinstance(arg, list | tuple):
        return [_shape_of_args(a) for a in arg]
    return "number" if isinstance(arg, int | float) and not isinstance(arg, bool) else arg


def merge(captures: Sequence[ShapeCapture], knobs: tuple[dict[str, int], ...], notes: tuple[str, ...]) -> CapturedGraph:
    """Merge captures with equal skeletons into one graph.

    Args:
        captures: The full shape first.
        knobs: The module-level integers that each capture overrides.
        notes: What could not be captured or generalised, in words.

    Raises:
        CannotCapture: if an argument has another type at another shape.
    """
    full = captures[0]
    placeholders = []
    for rows in zip(*(c.placeholders for c in captures), strict=True):
        if rows[0]["shape"] is not None:
            placeholders.append(Placeholder(**_merged_tensor(rows), **_only(rows[0], "kind", "target", "value")))
    nodes = []
    for rows in zip(*(c.nodes for c in captures), strict=True):
        args, kwargs = _merged_arguments(rows)
        nodes.append(Node(**_merged_tensor(rows), op=rows[0]["op"], args=args, kwargs=kwargs))
    attributes = {
        name: tuple(c.attributes[name] for c in captures)
        for name in full.attributes
        if all(name in c.attributes for c in captures)
    }
    return CapturedGraph(
        placeholders=tuple(placeholders), nodes=tuple(nodes), outputs=full.outputs, mutations=full.mutations,
        attributes=attributes, knobs=knobs, notes=notes,
    )  # fmt: skip


def _merged_arguments(rows: tuple[dict[str, Any], ...]) -> tuple[tuple[JsonValue, ...], dict[str, JsonValue]]:
    """Merge a call's arguments. What one capture gives and another leaves out is its default there."""
    every = [_all_arguments(row) for row in rows]
    longest = max(len(row["args"]) for row in rows)
    columns = zip(*(args[:longest] for args, _ in every), strict=True)
    keywords = dict.fromkeys(k for row in rows for k in row["kwargs"])
    return tuple(_merged_arg(list(c)) for c in columns), {k: _merged_arg([kw[k] for _, kw in every]) for k in keywords}


def _merged_tensor(rows: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    if rows[0]["shape"] is None:
        return {"name": rows[0]["name"]}
    shapes = tuple(tuple(r["shape"]) for r in rows)
    return {"name": rows[0]["name"], "shapes": shapes, "dtype": rows[0]["dtype"], "stride": tuple(rows[0]["stride"])}


def _only(row: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: row[name] for name in names if row.get(name) is not None}


def _merged_arg(values: list[Any]) -> JsonValue:
    first = values[0]
    if all(v == first and type(v) is type(first) for v in values):
        return first
    if isinstance(first, list):
        return [_merged_arg(list(column)) for column in zip(*values, strict=True)]
    if all(type(v) is int for v in values):
        return {"sizes": values}
    if all(isinstance(v, int | float) for v in values):
        return {"floats": [float(v) for v in values]}
    raise CannotCapture(f"an argument changes its kind with the shape: {values}")

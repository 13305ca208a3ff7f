"""What callers are told about an input: one text for Studio's schemas, tools of agents and MCP alike."""

from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from egg_graph.context import Context

ReferenceText = Annotated[
    str,
    Field(
        title="Reference",
        description="The PyTorch module to replace: Python source that defines class Model(torch.nn.Module), "
        "get_inputs() and, if Model takes arguments, get_init_inputs(). Or the path of a .py file on the machine that "
        "runs it.",
    ),
]
_NAME = Field(
    title="Name", description="What to call the task in reports; by default the name of the reference's file."
)
TaskName = Annotated[str, _NAME]
OptionalTaskName = Annotated[str | None, _NAME]
KernelToStartFrom = Annotated[
    str,
    Field(
        title="Kernel",
        description="A Triton kernel to start from: Python source that defines class ModelNew, or the path of a "
        ".py file on the machine that runs it. It is judged in place of a seed, then improved.",
    ),
]
FirstPlan = Annotated[
    str,
    Field(
        title="Plan",
        description="What to change first, in words, in place of the analyst's next plan. Empty once it was taken.",
    ),
]
KernelText = Annotated[
    str,
    Field(
        title="Kernel",
        description="The Triton kernel to judge: Python source that defines class ModelNew, called like Model. Or the "
        "path of a .py file on the machine that runs it.",
    ),
]


@cache
def _context_properties() -> dict[str, Any]:
    return dict(TypeAdapter(Context).json_schema()["properties"])


def knob_properties(names: Sequence[str] | None = None) -> dict[str, Any]:
    """JSON Schema of the knobs of a run, by name.

    Args:
        names: the knobs that are wanted; None for all of them.
    """
    properties = _context_properties()
    return {name: properties[name] for name in (properties if names is None else names)}


def describe_arguments(arguments: dict[str, Any], knobs: Sequence[str], required: Sequence[str]) -> dict[str, Any]:
    """JSON Schema of a tool's arguments: `arguments` by their annotated types, then these knobs of `Context`."""
    properties = {name: TypeAdapter(annotation).json_schema() for name, annotation in arguments.items()}
    return {
        "type": "object",
        "properties": {**properties, **knob_properties(knobs)},
        "required": list(required),
        "additionalProperties": False,
    }

"""The base class of every value."""

from typing import Any

from pydantic import BaseModel, ConfigDict


class Value(BaseModel):
    """A frozen value. Two are equal if their fields are; unknown fields are refused; a checkpoint can hold it."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


def is_empty(value: Any) -> bool:
    """True for what a field holds that is not in use: it is left out of what is saved."""
    return not value

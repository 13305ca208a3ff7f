"""The base class of every value."""

from pydantic import BaseModel, ConfigDict


class Value(BaseModel):
    """A frozen value. Two are equal if their fields are; unknown fields are refused; a checkpoint can hold it."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

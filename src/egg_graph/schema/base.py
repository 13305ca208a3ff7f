"""The one base class of every value in the vocabulary."""

from pydantic import BaseModel, ConfigDict


class Value(BaseModel):
    """A frozen value: equal by content, safe to keep in a checkpoint, closed to unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

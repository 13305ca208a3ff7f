"""Prices of models: data in prompts/prices.toml, and in a file of that name in a folder of the user's own."""

import re
from pathlib import Path

from pydantic import Field, ValidationError

from egg_graph.knowledge.toml_files import complaint, tables
from egg_graph.schema import BadInput, Usage
from egg_graph.schema.base import Value

_DATED = re.compile(r"-(20\d\d-?\d\d-?\d\d)$")
"""The date at the end of a model's name (`gpt-5-2025-08-07`), which its price does not depend on."""


class Price(Value):
    """What one model costs."""

    model: str
    host: str = ""
    """Host of the endpoint that asks this price; empty where it holds at every endpoint."""
    input: float = Field(ge=0)
    """[USD per million tokens]"""
    cached: float | None = Field(default=None, ge=0)
    """Of input that the provider has in its prompt cache [USD per million tokens]; None: as any other."""
    output: float = Field(ge=0)
    """[USD per million tokens]"""
    source: str
    """Where the price was read, and when."""

    def of(self, usage: Usage) -> float:
        """The price of so many tokens [USD]."""
        cached = self.input if self.cached is None else self.cached
        fresh = usage.input_tokens - usage.cached_tokens
        return (fresh * self.input + usage.cached_tokens * cached + usage.output_tokens * self.output) / 1e6


def find_price(model: str, host: str = "", folder: str | Path | None = None) -> Price | None:
    """The price of a model; None where nobody has told it, for a price is never guessed.

    Args:
        model: its name, as the endpoint knows it; a date at its end does not count.
        host: host of the endpoint, such as `api.openai.com`.
        folder: a folder with a `prices.toml` of the user's own, whose prices go before the shipped ones.

    Raises:
        BadInput: if a file is wrong (file, key, how to mend it).
    """
    names = {model, _DATED.sub("", model)}
    fitting = [price for price in load_prices(folder) if price.model in names and price.host in ("", host)]
    return fitting[-1] if fitting else None


def load_prices(folder: str | Path | None = None) -> list[Price]:
    """The shipped prices, then those of `folder`.

    Raises:
        BadInput: if a file is wrong (file, key, how to mend it).
    """
    found: list[Price] = []
    for where, table in tables("prices", folder):
        rows = table.get("price")
        if not isinstance(rows, list):
            raise BadInput(f"{where}: no [[price]] table; each names model, input, output and source")
        try:
            found += [Price.model_validate(row) for row in rows]
        except ValidationError as error:
            raise complaint(where, error) from error
    return found

"""Write and read results files: a .json with everything and a .md page, each written whole or not at all."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from egg_graph.runs.files import write_whole
from egg_graph.schema import BadInput, Value

DERIVED = ("summary", "complaints")
"""Fields of a results file that follow from the others; reading a file leaves them out."""

Results = TypeVar("Results", bound=Value)


def write_results(out: Path, results: Value, page: str, **derived: object) -> None:
    """Write `out` with suffix .json, and the page beside it with suffix .md.

    Args:
        out: path of the results file; its suffix is replaced.
        results: what the JSON file holds.
        page: Markdown text.
        **derived: further fields of the JSON file, named in `DERIVED`.

    Raises:
        BadInput: if the folder cannot be written.
    """
    data = {**results.model_dump(mode="json"), **derived}
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_whole(out.with_suffix(".json"), json.dumps(data, indent=2) + "\n")
        write_whole(out.with_suffix(".md"), page)
    except OSError as error:
        raise BadInput(f"{out}: results cannot be written: {error.strerror}") from error


def read_results(data: dict[str, Any], kind: type[Results]) -> Results:
    """Turn the JSON data of a results file into a value, without its derived fields."""
    return kind.model_validate({name: field for name, field in data.items() if name not in DERIVED})


def read_earlier(out: Path, fresh: Results, terms: dict[str, Any]) -> Results:
    """Read an earlier results file, to keep its rows; return `fresh` where there is none.

    Args:
        out: path of the results file; its suffix is replaced by .json.
        fresh: the results that are about to be written.
        terms: the fields that must agree, in the form of pydantic's `include`.

    Raises:
        BadInput: if the terms differ.
    """
    path = out.with_suffix(".json")
    if not path.exists():
        return fresh
    earlier = read_results(json.loads(path.read_text(encoding="utf-8")), type(fresh))
    if earlier.model_dump(mode="json", include=terms) != fresh.model_dump(mode="json", include=terms):
        raise BadInput(
            f"{path}: made by another evaluator or with other terms; give another --out, or leave out --keep"
        )
    return earlier


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a Markdown table."""
    return [_line(header), _line(["---"] * len(header)), *(_line(row) for row in rows)]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(" ".join(cell.replace("|", "\\|").split()) for cell in cells) + " |"

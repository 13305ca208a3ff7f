"""Results of the trust commands: a .json with everything and a .md to read, each there whole or not at all."""

import json
from collections.abc import Sequence
from pathlib import Path

from egg_graph.runs.files import write_whole
from egg_graph.schema import BadInput, Environment, Value


def write_results(out: Path, results: Value, page: str, **derived: object) -> None:
    """Write `out` with suffix .json, and the page beside it.

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


def machine(where: Environment | None) -> str:
    """One line: what gathered the evidence."""
    if where is None:
        return "no machine told"
    told = [where.gpu or "no GPU", where.driver and f"driver {where.driver}", where.cuda and f"CUDA {where.cuda}"]
    told += [f"torch {where.torch}", f"triton {where.triton}", f"Python {where.python}"]
    return ", ".join(filter(None, told))


def table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Lines of a Markdown table."""
    return [_line(header), _line(("---",) * len(header)), *(_line(row) for row in rows)]


def _line(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(" ".join(cell.replace("|", "\\|").split()) for cell in cells) + " |"

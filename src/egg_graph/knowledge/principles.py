"""Load expert principles from TOML files, the shipped ones and those of a user's folder (paper, sections 1 and 3)."""

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from egg_graph.knowledge.structure import STRUCTURES
from egg_graph.knowledge.toml_files import complaint, tables
from egg_graph.schema import BadInput, Principle


def load_principles(folder: str | Path | None = None) -> tuple[Principle, ...]:
    """Load every principle: the shipped ones, then those of the `principles_*.toml` files in `folder`.

    A principle in `folder` takes the place of a shipped one with the same id.

    Raises:
        BadInput: one line with the file, the principle, the key and how to mend it.
    """
    found: dict[str, Principle] = {}
    for where, table in tables("principles_", folder):
        seen: set[str] = set()
        for principle in _principles(where, table):
            if principle.id in seen:
                raise BadInput(f"{where}: principle {principle.id}: id used twice in this file; give each its own")
            seen.add(principle.id)
            found[principle.id] = principle
    return tuple(found.values())


def _principles(where: str, table: dict[str, Any]) -> list[Principle]:
    stage = table.pop("stage", None)
    entries = table.pop("principle", [])
    if table:
        raise BadInput(f"{where}: {next(iter(table))}: unknown key; a file holds `stage` and [[principle]] tables")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise BadInput(f"{where}: principle: not a list of tables; begin each with [[principle]]")
    principles = []
    for number, entry in enumerate(entries, start=1):
        if stage is not None:
            entry.setdefault("stages", [stage])
        try:
            principle = Principle.model_validate(entry)
        except ValidationError as error:
            raise complaint(f"{where}: principle {entry.get('id', f'number {number}')}", error) from error
        for structure in set(principle.structures) - set(STRUCTURES):
            known = ", ".join(STRUCTURES)
            raise BadInput(
                f"{where}: principle {principle.id}: structures: no {structure!r}; the structures are {known}"
            )
        principles.append(principle)
    return principles

"""Read the TOML data files, the shipped ones and the user's, with errors of one line."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from egg_graph.knowledge.shipped import prompt_files, prompt_text
from egg_graph.schema import BadInput


def tables(prefix: str, folder: str | Path | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Read every file `<prefix>*.toml` as `(where, table)`: the shipped ones first, then those of `folder`.

    Raises:
        BadInput: if the folder does not exist or a file is not TOML in UTF-8.
    """
    yield from shipped_tables(prefix)
    yield from own_tables(prefix, folder)


def shipped_tables(prefix: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Read every shipped file `<prefix>*.toml` as `(where, table)`."""
    for name in prompt_files(".toml"):
        if name.startswith(prefix):
            yield f"prompts/{name}", parse(f"prompts/{name}", prompt_text(name))


def own_tables(prefix: str, folder: str | Path | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Read every file `<prefix>*.toml` of the user's `folder` as `(where, table)`; none where there is no folder.

    Raises:
        BadInput: if the folder does not exist or a file is not TOML in UTF-8.
    """
    if folder is None:
        return
    own = Path(folder)
    if not own.is_dir():
        raise BadInput(f"{own}: no such folder; give one that holds {prefix}*.toml files")
    for path in sorted(own.glob(f"{prefix}*.toml")):
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise BadInput(f"{path}: not UTF-8 at byte {error.start}; save the file as UTF-8") from error
        yield str(path), parse(str(path), text)


def parse(where: str, text: str) -> dict[str, Any]:
    """Parse one TOML document.

    Raises:
        BadInput: if the text is not TOML; the message names the file and the line.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{where}: not valid TOML: {error}") from error


def complaint(where: str, error: ValidationError) -> BadInput:
    """The first error that pydantic found, as one line: file, key, what is wrong, and how to mend it."""
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"]) or "(the whole table)"
    more = f" ({error.error_count() - 1} more after it)" if error.error_count() > 1 else ""
    cure = {
        "missing": "add it",
        "extra_forbidden": "remove it or correct its spelling",
    }.get(first["type"], f"got {first['input']!r}"[:120])
    return BadInput(f"{where}: {key}: {first['msg']}; {cure}{more}")

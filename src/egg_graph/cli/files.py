"""Reading the files that a user names, with one clear line where that fails."""

from pathlib import Path

from egg_graph.schema import BadInput


def read_source(path: Path, what: str) -> str:
    """Text of a Python file.

    Args:
        path: the file.
        what: what it should hold ("reference", "candidate"), for the message.

    Raises:
        BadInput: if it is absent, a folder, or not UTF-8.
    """
    if path.is_dir():
        raise BadInput(f"{path}: is a folder; name the {what}'s .py file")
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise BadInput(f"{path}: no such file; name the {what}'s .py file") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: not UTF-8 at byte {error.start}; save the {what} as UTF-8") from error
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}") from error

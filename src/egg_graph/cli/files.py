"""Reading the files that a user names, with one clear line where that fails."""

from pathlib import Path

from egg_graph.schema import BadInput


def read_source(path: Path, what: str) -> str:
    """Text of a Python file.

    Args:
        path: the file.
        what: what it should hold ("reference", "candidate"), for the message.

    Raises:
        BadInput: if it is absent, a folder, not UTF-8, or an empty reference.
    """
    if path.is_dir():
        raise BadInput(f"{path}: is a folder; name the {what}'s .py file")
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise BadInput(f"{path}: no such file; name the {what}'s .py file") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: not UTF-8 at byte {error.start}; save the {what} as UTF-8") from error
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}") from error
    if what == "reference" and not text.strip():  # an empty candidate is judged like any other
        raise BadInput(f"the file {path} is empty; it should hold the reference: Model, get_inputs, get_init_inputs")
    return text

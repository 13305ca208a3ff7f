"""Read what a candidate's process wrote, where the text or the file itself may be a trap."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO


def parse(text: str | bytes) -> Any:
    """Parse JSON that a candidate's process wrote. Lone surrogates become `?`, so that text can be shown and stored.

    Raises:
        ValueError: if it is not JSON, or nested too deeply.
    """
    try:
        value = json.loads(text)
        if (b"\\ud" if isinstance(text, bytes) else "\\ud") in text.lower():  # type: ignore[operator]
            return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return value


def open_file(path: Path) -> BinaryIO:
    """Open a regular file that a candidate's process left.

    Raises:
        OSError: if it is a link, a pipe or a folder: reading these could lead elsewhere, or never end.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(f"{path.name} is not a file")
    return os.fdopen(fd, "rb")


def new_file(path: Path) -> BinaryIO:
    """Make a file where a candidate's process may have left something; a link there is replaced, never followed.

    Raises:
        OSError: if there is a folder, or the file appears again meanwhile.
    """
    path.unlink(missing_ok=True)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")

"""Reading what a candidate's process wrote, where the text and the file themselves may be traps."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO


def parse(text: str | bytes) -> Any:
    """JSON that a candidate's process wrote, as text that can be shown and stored: halves of characters become `?`.

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
    """A file that a candidate's process left, to be read.

    Raises:
        OSError: if it is none, but a link, a pipe or a folder: reading these could lead elsewhere, or never end.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(f"{path.name} is not a file")
    return os.fdopen(fd, "rb")

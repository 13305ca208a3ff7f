"""Jobs for a fork server that no static gate has seen: they show what the sandbox alone holds back."""

import os
from pathlib import Path
from typing import Any


def fork_bomb(payload: dict[str, Any], folder: Path, channel: int) -> dict[str, Any]:
    """Fork without end; every child does the same."""
    while True:
        os.fork()

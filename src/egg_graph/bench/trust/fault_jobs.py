"""Jobs for a fork server that no static gate has seen: what the sandbox alone makes of them."""

import os
from pathlib import Path
from typing import Any


def fork_bomb(payload: dict[str, Any], folder: Path, channel: int) -> dict[str, Any]:
    """Fork without end; so does every child."""
    while True:
        os.fork()

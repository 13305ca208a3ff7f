"""Jobs for a fork server."""

import time
from pathlib import Path
from typing import Any


def work(payload: dict[str, Any], folder: Path, channel: int) -> dict[str, Any]:
    """Work for about `payload["steps"]` twentieths of a second."""
    for _ in range(payload["steps"]):
        time.sleep(0.05)
    return {"done": payload["steps"]}

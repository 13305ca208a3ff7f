"""Count how often each tuning configuration has run, and choose the next one."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Trials:
    """How often each configuration of each kernel has run."""

    seed: int
    runs: dict[str, dict[str, int]] = field(default_factory=dict)
    """By kernel and configuration."""

    def choose(self, kernel: str, configs: list[Any]) -> Any:
        """One of those that ran least."""
        runs = self.runs.setdefault(kernel, {})
        for config in configs:
            runs.setdefault(str(config), 0)
        chosen = min(configs, key=lambda c: (runs[str(c)], zlib.crc32(f"{self.seed} {kernel} {c}".encode())))
        runs[str(chosen)] += 1
        return chosen

    def untried(self) -> int:
        """Configurations that never ran."""
        return sum(not times for runs in self.runs.values() for times in runs.values())

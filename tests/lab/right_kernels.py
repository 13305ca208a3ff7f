"""Right kernels with headers, for measurements of the evaluator on honest work."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from egg_graph.bench.trust.headers import Entry, read_entries
from egg_graph.schema import BadInput


def read_right_kernels(files: Sequence[Path], ladder: Literal["cpu", "gpu"]) -> list[Entry]:
    """The right kernels among files with headers, or in folders of them, that a ladder can judge.

    Raises:
        BadInput: if there is none.
    """
    entries = [entry for entry in read_entries(files) if entry.header.honest and ladder in entry.header.where]
    if not entries:
        raise BadInput(f"{', '.join(map(str, files))}: no right kernel for this device in it")
    return entries

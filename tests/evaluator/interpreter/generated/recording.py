"""The recorded answers of the hardware: every kernel's, in one compressed file."""

import gzip
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.evaluator.interpreter.generated.catalogue import CATEGORIES
from tests.evaluator.interpreter.generated.comparison import Answer
from tests.evaluator.interpreter.generated.writer import GeneratedKernel
from tests.paths import ROOT

RECORDED = ROOT / "docs" / "results" / "interpreter_hardware_h200_answers.json.gz"
SAMPLE = tuple(f"{category}_{count // 2:03d}" for category, (count, _) in CATEGORIES.items())
"""One kernel of each category."""


def source_digest(kernel: GeneratedKernel) -> str:
    """Hash of a kernel's text, its inputs and the classes of its errors."""
    return hashlib.sha256(f"{kernel.source}{kernel.inputs}{kernel.errors}".encode()).hexdigest()[:16]


def write_recording(path: Path, answers: Mapping[str, Mapping[str, Any]]) -> None:
    """Write what the hardware answered, by name: `source`, and `outputs` or `refused`. The same answers, the same file.

    Args:
        path: of the file, `.json.gz`.
        answers: by name of the kernel.
    """
    text = json.dumps(dict(sorted(answers.items())), separators=(",", ":"))
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def read_recording(path: Path = RECORDED) -> dict[str, dict[str, Any]]:
    """Read what `write_recording` wrote."""
    recorded: dict[str, dict[str, Any]] = json.loads(gzip.decompress(path.read_bytes()))
    return recorded


def answers_of(row: Mapping[str, Any]) -> list[Answer]:
    """Read the outputs of one kernel."""
    return [Answer.of_json(output) for output in row["outputs"]]

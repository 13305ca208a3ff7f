"""Which evaluator judged: a digest of its source."""

import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path


@cache
def evaluator_digest() -> str:
    """SHA-256 of the installed evaluator's source files, as 16 hex digits."""
    folder = Path(__file__).parent
    return digest_of((str(file.relative_to(folder)), file.read_bytes()) for file in sorted(folder.rglob("*.py")))


def digest_of(files: Iterable[tuple[str, bytes]]) -> str:
    """SHA-256 of files by name and content, as 16 hex digits."""
    digest = hashlib.sha256()
    for name, content in files:
        digest.update(name.encode() + b"\0" + content)
    return digest.hexdigest()[:16]

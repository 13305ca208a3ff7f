"""What tells whether two compiled kernels are the same code, wherever they were written."""

from __future__ import annotations

import hashlib
import re

_PLACES = re.compile(r"^\s*\.(?:loc|file)\b.*$|^\s*//.*$|\s*//.*$", re.MULTILINE)
_DEBUG = re.compile(r"^\s*\.section\s+\.debug", re.MULTILINE)


def code_fingerprint(ptx: str) -> str:
    """SHA-256 of a kernel's PTX without what tells where in which file it was written."""
    debug = _DEBUG.search(ptx)
    code = _PLACES.sub("", ptx[: debug.start()] if debug else ptx)
    return hashlib.sha256(code.encode()).hexdigest()

"""What identifies a compiled candidate: two of one fingerprint launch the same code on the same arguments."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from egg_graph.evaluator.evidence.statements import code_key
from egg_graph.evaluator.wire.launches import FakeRun


def compiled_fingerprint(run: FakeRun, codes: Mapping[str, str]) -> str:
    """Fingerprint of a forward: its launches in order, with grid, arguments and code, and its library calls.

    Args:
        run: the forward, recorded at full shape.
        codes: `code_fingerprint` of each launch's code, by its `code_key`.

    Returns:
        SHA-256; empty where it is not known: a launch has a tuner of its own, or was not compiled.
    """
    if any(launch.alternatives or code_key(launch) not in codes for launch in run.launches):
        return ""
    launches = [
        (launch.kernel, launch.grid, launch.arguments, launch.numbers, codes[code_key(launch)])
        for launch in run.launches
    ]
    calls = [call.model_dump(mode="json") for call in run.library]
    return hashlib.sha256(json.dumps([launches, calls]).encode()).hexdigest()

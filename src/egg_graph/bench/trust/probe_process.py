"""`python -m egg_graph.bench.trust.probe_process REFERENCE DEVICE PRECISION`: judge one problem, print JSON."""

from __future__ import annotations

import json
import secrets
import sys
from pathlib import Path
from typing import Any, cast

from egg_graph.evaluator.garbage_collection import garbage_collection_off
from egg_graph.schema import BadInput, KernelTask, Precision


def main(reference: Path, device: str, precision: Precision) -> dict[str, Any]:
    """The verdict on one problem, as JSON data."""
    with garbage_collection_off():
        import torch
        import torch._dynamo  # the first question to any reference is asked under fake tensors, which import it

        from egg_graph.evaluator.device.access import access_to
        from egg_graph.evaluator.problem.problem import Problem
        from egg_graph.knowledge import load_hardware

    torch.set_num_threads(1)
    task = KernelTask(
        name=reference.stem, reference=reference.read_text(), target=load_hardware("h200"), precision=precision
    )
    problem = Problem(task, secrets.randbits(62), torch.device("cuda" if device == "gpu" else "cpu"))
    try:
        with access_to(device).computing():  # not while another process measures
            surveyed = problem.untimed_baseline
    except BadInput as error:
        return {"verdict": "unevaluable", "reason": str(error)}
    return {
        "verdict": "unevaluable" if surveyed.unevaluable else "evaluable",
        "reason": surveyed.unevaluable,
        "weaknesses": list(surveyed.weaknesses),
        "families": list(surveyed.families),
        "dropped": problem.dropped_families,
    }


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), sys.argv[2], cast(Precision, sys.argv[3]))))

"""A job of a confined child: compile a candidate's launches for the target, as a GPU's launcher and tuner would."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from egg_graph.evaluator.host.child import name_the_line_when_stuck
from egg_graph.evaluator.wire.faults import KernelFault
from egg_graph.evaluator.wire.launches import Launch
from egg_graph.evaluator.worker.jobs import CANDIDATE
from egg_graph.schema import Finding, Hardware

TUNER_SKIPS = frozenset({"CompileTimeAssertionFailure", "PTXASError", "OutOfResources"})
"""Triton's exceptions for which its tuner passes a configuration over."""


def compile_all(payload: dict[str, Any], folder: Path, channel: int) -> dict[str, Any]:
    """Compile launches for the target.

    `payload["launches"]` holds one list for each launch: its configurations in the order in which they are tried.
    Those that the tuner would skip are passed over, and the first that compiles and fits stands for the launch. After
    `payload["seconds"]`, if that is not None, no further list is begun.

    Returns:
        `groups`, one entry for each list begun: `resources` (None where nothing compiled), `chosen` (position in the
        list), `findings`, and `passed_over` (findings of the configurations that were skipped).
    """
    name_the_line_when_stuck(max(0.5, payload["wall_seconds"] - 1.0))
    hardware = Hardware.model_validate(payload["hardware"])
    started, seconds = time.monotonic(), payload["seconds"]
    groups = []
    for entries in payload["launches"]:
        if seconds is not None and time.monotonic() - started > seconds:
            break
        launches = [Launch.model_validate(entry) for entry in entries]
        groups.append(_first_that_fits(folder, launches, hardware))
    return {"groups": groups}


def fill_cache(payload: dict[str, Any], folder: Path, channel: int) -> dict[str, Any]:
    """Compile one launch into Triton's cache; what the compiler refuses, the process that launches it finds out.

    Returns:
        `code`: the fingerprint of its code; empty where it does not compile.
    """
    from egg_graph.evaluator.aot import compile

    name_the_line_when_stuck(max(0.5, payload["wall_seconds"] - 1.0))
    hardware = Hardware.model_validate(payload["hardware"])
    with suppress(KernelFault):
        return {"code": compile.fill_cache(folder / CANDIDATE, Launch.model_validate(payload["launch"]), hardware)}
    return {"code": ""}


def build_launcher(payload: dict[str, Any], folder: Path, channel: int) -> dict[str, Any]:
    """Build what launches kernels of some parameter types into Triton's cache. Nothing of a candidate takes part."""
    from egg_graph.evaluator.aot import launcher

    launcher.build_launcher(payload["types"], Hardware.model_validate(payload["hardware"]))
    return {}


def _first_that_fits(folder: Path, launches: Sequence[Launch], hardware: Hardware) -> dict[str, Any]:
    from egg_graph.evaluator.aot import compile_launch

    passed_over: list[Finding] = []
    for number, launch in enumerate(launches):
        try:
            resources = compile_launch(folder / CANDIDATE, launch, hardware)
        except KernelFault as fault:
            if not _is_skipped(fault):
                return _entry(None, number, [fault.finding()], passed_over)
            passed_over.append(fault.finding())
        else:
            return _entry(resources.model_dump(mode="json"), number, [], passed_over)
    return _entry(None, 0, [_none_fits(passed_over)], passed_over)


def _entry(
    resources: dict[str, Any] | None, chosen: int, findings: list[Finding], passed_over: list[Finding]
) -> dict[str, Any]:
    return {
        "resources": resources,
        "chosen": chosen,
        "findings": [finding.model_dump() for finding in findings],
        "passed_over": [finding.model_dump() for finding in passed_over],
    }


def _is_skipped(fault: KernelFault) -> bool:
    """Whether Triton's tuner would go on to the next configuration."""
    cause: BaseException | None = fault
    while cause is not None:
        if type(cause).__name__ in TUNER_SKIPS:
            return True
        cause = cause.__cause__
    return fault.kind == "shared_memory_exceeded"


def _none_fits(passed_over: Sequence[Finding]) -> Finding:
    """Say that no configuration is left for the tuner; the only one's own fault where nothing is tuned."""
    first = passed_over[0]
    if len(passed_over) == 1:
        return first
    message = f"none of the {len(passed_over)} tuning configurations can be launched; the first: {first.message}"
    return first.model_copy(update={"message": message})

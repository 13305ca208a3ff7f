"""Re-tune one kernel for the machine that judges: an `optimize` run in which nobody but the tuner changes anything."""

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from egg_graph.nodes.prepare import read_kernel
from egg_graph.runs.files import ANEW, cannot_write, write_whole
from egg_graph.runs.optimize import optimize
from egg_graph.runs.results import Run
from egg_graph.schema import Attempt, BadInput, Evaluation, Sweep
from egg_graph.tuning import Winner, add_winner, read_knobs, situation_of, spanned, user_store

KNOBS: Mapping[str, Any] = {
    "sweep": "whole",
    "stages": ("algorithmic_structure",),
    "max_optimizations": 0,
    "max_configs": 64,
}
"""Knobs of `Context` that make a run one sweep of a whole SPACE."""
TUNABLE = "tunable.py"
"""File in the run's folder: the tuned kernel with CONFIG and SPACE, for another sweep."""
HOW_TO = (
    'at module level write CONFIG = {"BLOCK": 1024, "num_warps": 4} and SPACE = {"tensor_tiling": {"BLOCK": [512, '
    '1024, 2048]}, "parallel_mapping": {"num_warps": [4, 8]}}, and launch with CONFIG["BLOCK"] and CONFIG["num_warps"]'
)
"""How a kernel gets knobs."""


def tune(
    source_or_path: str | Path,
    *,
    kernel: str | Path | None = None,
    store_out: Path | None = None,
    **options: Any,
) -> Run:
    """Sweep the SPACE of one kernel, judge the winner as `optimize` does, and remember it.

    The run is one of `optimize`, with the same folder, files and verdict, and tunable.py beside kernel.py. Where a GPU
    timed it and a kernel was handed over, its configuration goes into the user's store of winners.

    Args:
        source_or_path: the PyTorch reference, as text or .py file.
        kernel: a module with ModelNew, CONFIG and SPACE, as text or .py file; None for the embedded expert's kernel.
        store_out: a further store that the winner is written to, such as one that is to ship.
        **options: of `optimize`, without model, team and plan.

    Raises:
        BadInput: as `optimize`; and if the kernel has no SPACE that leaves a choice, or a store is damaged.
        InfrastructureError, AnswerPending: see `optimize`.
    """
    source = read_kernel(kernel)
    if source:
        _require_space(source, str(kernel) if isinstance(kernel, Path) else "the kernel")
    as_it_is = {"max_repairs": 0} if source else {}
    run = optimize(source_or_path, kernel=source or None, **{**KNOBS, **as_it_is, **options})
    _write_tunable(run)
    winner = winner_of(run)
    if winner is not None:
        for path in (user_store(), *([] if store_out is None else [store_out])):
            add_winner(path, winner)
    return run


def _require_space(source: str, what: str) -> None:
    """Refuse a kernel whose knobs leave no choice.

    Raises:
        BadInput: one line that says how to write a SPACE.
    """
    config, space, dropped = read_knobs(source)
    if any(len(values) > 1 for knobs in space.values() for values in spanned(config, knobs).values()):
        return
    why = f" ({dropped[0]})" if dropped else ""
    raise BadInput(f"{what} has no SPACE to sweep{why}: {HOW_TO}")


def _write_tunable(run: Run) -> None:
    """Write the kernel that was handed over as it was before its knobs became plain constants.

    Raises:
        InfrastructureError: if the file cannot be written.
    """
    best = run.state.get("best")
    text = next((a.candidate.source for a in run.attempts if best and a.candidate.id in (best.parent, best.id)), "")
    if not text:
        return
    try:
        write_whole(run.folder / TUNABLE, text)
    except OSError as error:
        raise cannot_write(run.folder, error, ANEW) from error


def whole_sweep(run: Run) -> Sweep | None:
    """The sweep of a run of `tune`; None where it came to none."""
    sweeps = run.state.get("sweeps", [])
    return sweeps[-1] if sweeps else None


def swept_attempt(run: Run) -> Attempt | None:
    """The attempt that judged the kernel with the configuration that it came with; None without a sweep."""
    sweep = whole_sweep(run)
    return next((a for a in run.attempts if sweep is not None and a.candidate.id == sweep.kernel), None)


def winner_of(run: Run) -> Winner | None:
    """What a store may remember of a run; None where no kernel was handed over, or nothing was timed."""
    sweep, own, best, evaluation = whole_sweep(run), swept_attempt(run), run.state.get("best"), run.evaluation
    if sweep is None or own is None or best is None:
        return None
    situation = situation_of(run.state["task"], run.state["baseline"], own.candidate.source)
    milliseconds, before = _device_ms(evaluation), _device_ms(own.evaluation)
    if situation is None or milliseconds is None or before is None:
        return None
    return Winner(
        situation=situation,
        config=best.config,
        milliseconds=milliseconds,
        own_milliseconds=before,
        tried=len(sweep.trials),
        task=run.state["task"].name,
        run=run.id,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )


def _device_ms(evaluation: Evaluation | None) -> float | None:
    timing = None if evaluation is None else evaluation.timing
    return None if timing is None else timing.candidate_ms

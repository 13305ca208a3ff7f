"""Re-tune one kernel for the machine that judges: an `optimize` run in which nobody but the tuner changes anything."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from egg_graph.nodes.prepare import read_kernel
from egg_graph.runs.folder import change_request, read_request
from egg_graph.runs.optimize import optimize
from egg_graph.runs.results import Run
from egg_graph.runs.tune_results import note_tune
from egg_graph.schema import BadInput
from egg_graph.tuning import check_store, parse, read_knobs, spanned, unread, user_store

KNOBS: Mapping[str, Any] = {
    "sweep": "whole",
    "stages": ("algorithmic_structure",),
    "max_optimizations": 0,
    "tune": True,
    "memory": False,
}
"""Knobs of `Context` that make a run one sweep of a whole SPACE: none may be given another value."""
MAX_CONFIGS = 64
"""Most configurations, where nobody says."""
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
        **options: of `optimize`, without model, team, plan, store and the knobs in `KNOBS`.

    Raises:
        BadInput: as `optimize`; and if the kernel has no SPACE that leaves a choice, a part of it cannot be swept, an
            option makes it no sweep, or a store is damaged or cannot be written.
        InfrastructureError, AnswerPending: see `optimize`.
    """
    _check_options(options)
    source = read_kernel(kernel)
    if source:
        _require_space(source, str(kernel) if isinstance(kernel, Path) else "the kernel")
    further = None if store_out is None else Path(store_out)
    for path in (user_store(), *([] if further is None else [further])):
        check_store(path)
    told = options.pop("on_start", None)

    def begin(folder: Path) -> None:
        change_request(folder, note_tune(read_request(folder), further))
        if told is not None:
            told(folder)

    as_it_is = {"max_repairs": 0} if source else {}
    knobs = {"max_configs": MAX_CONFIGS, **KNOBS, **as_it_is, **options}
    return optimize(source_or_path, kernel=source or None, on_start=begin, **knobs)


def _check_options(options: Mapping[str, Any]) -> None:
    """Refuse what would make a run something else than one sweep.

    Raises:
        BadInput: one line that names the option.
    """
    for name, fixed in KNOBS.items():
        given = options.get(name, fixed)
        if (tuple(given) if isinstance(given, list) else given) != fixed:
            raise BadInput(f"tune makes one sweep with {name}={fixed!r}, not {given!r}: leave it out, or call optimize")
    for name in ("model", "team", "plan", "store"):
        if options.get(name):
            raise BadInput(f"tune takes no {name}: nobody but the tuner changes anything; call optimize")
    limit = options.get("max_configs", MAX_CONFIGS)
    if isinstance(limit, int) and limit < 2:
        raise BadInput(f"max_configs (--max-configs) is {limit}: a sweep compares at least 2 configurations")


def _require_space(source: str, what: str) -> None:
    """Refuse a kernel whose knobs leave no choice.

    Raises:
        BadInput: one line that says what is wrong with it, or how to write one.
    """
    try:
        parse(source)
    except BadInput as error:
        raise BadInput(f"{what} is not valid Python: {str(error).partition(': ')[2]}") from error
    config, space, dropped = read_knobs(source)
    if wrong := (*dropped, *unread(source, space).values()):
        raise BadInput(f"{what}: {'; '.join(wrong)}: mend it, for it would not be swept")
    if any(len(values) > 1 for knobs in space.values() for values in spanned(config, knobs).values()):
        return
    raise BadInput(f"{what} has no SPACE to sweep: {HOW_TO}")

"""Run a suite: one `optimize` a reference, and the results rewritten after each, so that a stop loses one run."""

import datetime
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from egg_graph.bench.statistics import summarize
from egg_graph.bench.table import markdown
from egg_graph.bench.values import Results, Row, row_of
from egg_graph.bench.version import version
from egg_graph.context import Context, choose_target
from egg_graph.runs.files import write_whole
from egg_graph.runs.optimize import optimize
from egg_graph.runs.results import Run
from egg_graph.schema import BadInput, Environment, InfrastructureError

Told = Callable[[str], None]


def run_suite(
    references: Sequence[Path],
    out: Path,
    *,
    model: str | None = None,
    runs_dir: Path = Path("runs"),
    keep: bool = False,
    on_start: Told | None = None,
    on_event: Callable[[Any], None] | None = None,
    on_row: Callable[[Row], None] | None = None,
    parts: dict[str, Any] | None = None,
    **knobs: Any,
) -> Results:
    """Optimize every reference and write `<out>.json` and `<out>.md`.

    Args:
        references: paths of the references.
        out: the results' path without suffix; its last part is the results' name.
        model: name of a chat model, None for the embedded expert.
        runs_dir: where each run's folder is made.
        keep: keep the rows of an earlier run of the same suite on the same terms, and run the rest.
        on_start, on_event, on_row: called with a reference's name, with a run's events, with a finished row.
        parts: team or evaluator for `optimize`, in place of the default ones.
        **knobs: knobs of `Context` for every run.

    Returns:
        All rows. A run that could not be made is a row with its reason.

    Raises:
        BadInput: if a knob or `out` is wrong.
        ModelRefused: if the model's endpoint rejects requests; nothing would work after that.
    """
    context = Context(**knobs)
    results = Results(
        name=out.name,
        version=version(),
        started=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        model=model or "embedded expert",
        precision=context.precision,
        target=choose_target(context.target).name,
        settings=asdict(context),
    )
    results = _kept(results, out) if keep else results
    order = {path.stem: number for number, path in enumerate(references)}
    for path in references:
        if path.stem in {row.name for row in results.rows}:
            continue
        if on_start is not None:
            on_start(path.stem)
        row, environment = _one(path, model=model, runs_dir=runs_dir, on_event=on_event, **(parts or {}), **knobs)
        rows = sorted((*results.rows, row), key=lambda row: order.get(row.name, len(order)))
        update = {"rows": tuple(rows), "environment": environment or results.environment}
        results = results.model_copy(update=update)
        _write(results, out)
        if on_row is not None:
            on_row(row)
    return results


def _one(path: Path, **options: Any) -> tuple[Row, Environment | None]:
    try:
        run: Run = optimize(path, **options)
    except BadInput as error:
        return Row(name=path.stem, task="", status="bad_input", reason=str(error)), None
    except InfrastructureError as error:
        return Row(name=path.stem, task="", status="infra_error", reason=str(error)), None
    found = run.evaluation.environment if run.evaluation is not None else None
    return row_of(run), found or run.state["baseline"].environment


def _kept(fresh: Results, out: Path) -> Results:
    """An earlier results file, if it was made on the same terms; rows of runs that could not be made are tried again.

    Raises:
        BadInput: if the file is there and its terms differ.
    """
    path = out.with_name(out.name + ".json")
    if not path.exists():
        return fresh
    stored = json.loads(path.read_text(encoding="utf-8"))
    stored.pop("summary", None)
    old = Results.model_validate(stored)
    if (old.settings, old.model, old.target, old.version) != (
        _plain(fresh.settings),
        fresh.model,
        fresh.target,
        fresh.version,
    ):
        raise BadInput(f"{path}: made with other settings, so its rows cannot be kept; give another name with --out")
    return old.model_copy(
        update={"rows": tuple(row for row in old.rows if row.status not in ("bad_input", "infra_error"))}
    )


def _plain(settings: dict[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(settings))


def _write(results: Results, out: Path) -> None:
    data = {**results.model_dump(mode="json"), "summary": summarize(results.rows).model_dump(mode="json")}
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_whole(out.with_name(out.name + ".json"), json.dumps(data, indent=2) + "\n")
        write_whole(out.with_name(out.name + ".md"), markdown(results))
    except OSError as error:
        raise BadInput(f"{out}: results cannot be written: {error.strerror}") from error

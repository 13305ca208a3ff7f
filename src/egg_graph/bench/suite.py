"""Run a suite: find its references, call `optimize` for each, and rewrite the results after each one."""

import ast
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from egg_graph.bench.provenance import utc_now, version
from egg_graph.bench.table import markdown
from egg_graph.bench.values import Results, Row, row_of, summarize
from egg_graph.bench.writing import read_earlier, write_results
from egg_graph.context import Context, choose_target
from egg_graph.schema import BadInput, Environment, InfrastructureError
from egg_graph.team import name_models


def find_references(path: str | Path, only: str = "*") -> tuple[Path, ...]:
    """The references of a suite, sorted by path for a folder, in its own order for a list.

    Args:
        path: a folder (every .py file in it that defines `Model` and `get_inputs`), a .txt file with one path a line
            (relative to the list; `#` begins a comment), or one reference.
        only: pattern on the file's name without .py, such as `*norm`.

    Raises:
        BadInput: if the path does not exist or nothing in it is a reference.
    """
    path = Path(path)
    if path.is_dir():
        found = [file for file in sorted(path.glob("*.py")) if _is_reference(file)]
    elif path.suffix == ".txt" and path.is_file():
        lines = [line.split("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines()]
        found = [path.parent / line for line in lines if line]
    elif path.is_file():
        found = [path]
    else:
        raise BadInput(f"{path}: no such folder or file; name a folder of references, or a .txt list of them")
    chosen = tuple(file for file in found if file.match(f"{only}.py"))
    if not chosen:
        raise BadInput(f"{path}: no reference named {only!r} in it (a .py file with class Model and get_inputs)")
    return chosen


def _is_reference(file: Path) -> bool:
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return False
    names = {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    return {"Model", "get_inputs"} <= names


def run_suite(
    references: Sequence[Path],
    out: Path,
    *,
    model: str | Mapping[str, str] | None = None,
    runs_dir: Path = Path("runs"),
    keep: bool = False,
    on_start: Callable[[str], None] = lambda name: None,
    on_event: Callable[[Any], None] | None = None,
    on_row: Callable[[Row], None] = lambda row: None,
    parts: dict[str, Any] | None = None,
    **knobs: Any,
) -> Results:
    """Optimize every reference and write `<out>.json` and `<out>.md`.

    Args:
        references: paths of the references.
        out: the results' path without suffix; its last part is the results' name.
        model: name of a chat model, or a mapping from each role to one; None for the embedded expert.
        runs_dir: where each run's folder is made.
        keep: keep the rows of an earlier run of the same suite with the same settings, and run the rest; a run that
            could not be made is tried again.
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
    file = out.with_name(out.name + ".json")
    results = Results(
        name=out.name,
        version=version(),
        started=utc_now(),
        model=name_models(model) if model else "embedded expert",
        precision=context.precision,
        target=choose_target(context.target).name,
        settings=json.loads(json.dumps(asdict(context))),
    )
    if keep:
        same = {"settings": True, "model": True, "target": True, "version": True}
        results = read_earlier(file, results, same, noun="settings")
        rows = tuple(row for row in results.rows if row.status not in ("bad_input", "infra_error"))
        results = results.model_copy(update={"rows": rows})
    order = {path.stem: number for number, path in enumerate(references)}
    done = {row.name for row in results.rows}
    for path in references:
        if path.stem in done:
            continue
        on_start(path.stem)
        row, environment = _run_one(path, model=model, runs_dir=runs_dir, on_event=on_event, **(parts or {}), **knobs)
        rows = tuple(sorted((*results.rows, row), key=lambda row: order.get(row.name, len(order))))
        results = results.model_copy(update={"rows": rows, "environment": environment or results.environment})
        write_results(file, results, markdown(results), summary=summarize(rows).model_dump(mode="json"))
        on_row(row)
    return results


def _run_one(path: Path, **options: Any) -> tuple[Row, Environment | None]:
    """Optimize one reference; where no run could be made, the row says why and there is no environment."""
    from egg_graph import optimize

    try:
        run = optimize(path, **options)
    except BadInput as error:
        return Row(name=path.stem, task="", status="bad_input", reason=str(error)), None
    except InfrastructureError as error:
        return Row(name=path.stem, task="", status="infra_error", reason=str(error)), None
    environment = run.evaluation.environment if run.evaluation is not None else None
    return row_of(run), environment or run.state["baseline"].environment

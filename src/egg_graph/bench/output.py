"""Write what people read of a bench: results, table and page, all from the same rows."""

from pathlib import Path

from egg_graph.bench.ablation import ablations
from egg_graph.bench.page import render
from egg_graph.bench.statistics import by_group, kernelbench_numbers
from egg_graph.bench.table import markdown
from egg_graph.bench.values import Results
from egg_graph.bench.writing import write_results
from egg_graph.runs.files import write_whole
from egg_graph.schema import BadInput


def write_bench(out: Path, results: Results, runs_dir: Path) -> None:
    """Write `<out>.json`, `<out>.md` and `<out>.html`.

    Args:
        out: path without suffix.
        results: the rows with their terms.
        runs_dir: the folder with the runs' folders, for the trajectories of the page.

    Raises:
        BadInput: if a file cannot be written.
    """
    if not results.rows:
        return
    numbers = kernelbench_numbers(results.whole)
    summary = {
        "groups": [group.model_dump(mode="json") for group in by_group(results.whole)],
        "kernelbench": numbers and numbers.model_dump(mode="json"),
        "ablations": [one.model_dump(mode="json") for one in ablations(results.rows, results.without)],
    }
    page = render(results, runs_dir)
    write_results(out.with_name(out.name + ".json"), results, markdown(results), summary=summary)
    try:
        write_whole(out.with_name(out.name + ".html"), page)
    except OSError as error:
        raise BadInput(f"{out}.html: cannot be written: {error.strerror}") from error

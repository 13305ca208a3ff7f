"""Write what people read of a bench: results, table and page, all from the same rows."""

from pathlib import Path

from egg_graph.bench.figures import Figures
from egg_graph.bench.page import Trajectories, render
from egg_graph.bench.table import markdown
from egg_graph.bench.values import Results
from egg_graph.bench.writing import write_results
from egg_graph.runs.files import write_whole
from egg_graph.schema import BadInput


def write_bench(out: Path, results: Results, trajectories: Trajectories) -> None:
    """Write `<out>.json`, `<out>.md` and `<out>.html`.

    Args:
        out: path without suffix.
        results: the rows with their terms.
        trajectories: what the runs tried, for the page.

    Raises:
        BadInput: if a file cannot be written.
    """
    if not results.rows:
        return
    figures = Figures.of(results)
    page = render(results, figures, trajectories)
    table = markdown(results, figures)
    write_results(out.with_name(out.name + ".json"), results, table, summary=figures.summary())
    try:
        write_whole(out.with_name(out.name + ".html"), page)
    except OSError as error:
        raise BadInput(f"{out}.html: cannot be written: {error.strerror}") from error

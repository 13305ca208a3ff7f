"""Write the tables of findings and rungs into a page: `python -m egg_graph.evaluator.evidence.tables PAGE`."""

import sys
from pathlib import Path

from egg_graph.evaluator.evidence.findings import FINDINGS
from egg_graph.evaluator.evidence.rungs import RUNGS


def findings_table() -> str:
    """The table of findings, in Markdown."""
    head = "| finding | status | cause | cure | seen by |\n| --- | --- | --- | --- | --- |\n"
    return head + "".join(
        f"| `{kind}` | {row.status or 'no reason to reject'} | {row.cause} | {row.cure} | {row.seen_by} |\n"
        for kind, row in FINDINGS.items()
    )


def rungs_table() -> str:
    """The table of rungs, in Markdown."""
    head = "| rung | ladder | proves |\n| --- | --- | --- |\n"
    return head + "".join(f"| `{name}` | {row.ladder} | {row.proves} |\n" for name, row in RUNGS.items())


def fill_page(page: str) -> str:
    """The page with each table anew between its two markers (`<!-- findings: begin -->`, `<!-- findings: end -->`)."""
    for name, table in (("findings", findings_table()), ("rungs", rungs_table())):
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        if begin in page and end in page:
            before, after = page.partition(begin)[0], page.partition(end)[2]
            page = f"{before}{begin}\n{table}{end}{after}"
    return page


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(fill_page(path.read_text()))

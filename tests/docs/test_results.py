"""Numbers in the README are those of the results files that a command wrote."""

import json

from egg_graph.bench.statistics import summarize
from egg_graph.bench.values import Results
from tests.lab.figures import read_figures
from tests.paths import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
H200 = ROOT / "docs" / "results" / "examples_h200"


def test_the_table_of_the_readme_is_the_one_that_was_written():
    written = [line for line in H200.with_suffix(".md").read_text(encoding="utf-8").splitlines() if line[:1] == "|"]
    assert len(written) >= 10
    assert "\n".join(written) in README


def test_the_summary_of_the_readme_follows_from_the_rows():
    data = json.loads(H200.with_suffix(".json").read_text(encoding="utf-8"))
    data.pop("summary")
    summary = summarize(Results.model_validate(data).rows)
    assert f"Geometric mean {summary.geometric_mean.value:.2f}, median {summary.median.value:.2f}" in README


def test_the_figures_of_the_page_on_trust_are_those_that_were_written():
    page = (ROOT / "docs" / "trust.md").read_text(encoding="utf-8")
    told = page.split("<!-- figures -->")[1].split("<!-- /figures -->")[0]
    assert told.strip() == read_figures(ROOT / "docs" / "results").strip()
    assert "trust_corpus" in told

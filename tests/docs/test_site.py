"""The documentation site builds, and its build refuses what is broken."""

import os
import shutil
import subprocess
import sys

import pytest

import egg_graph
import egg_graph.evaluator
import egg_graph.schema
from tests.paths import ROOT

pytest.importorskip("mkdocs", reason="mkdocs is not installed: pip install 'egg-graph[docs]'")
pytest.importorskip("material", reason="mkdocs-material is not installed: pip install 'egg-graph[docs]'")
pytest.importorskip("mkdocstrings", reason="mkdocstrings is not installed: pip install 'egg-graph[docs]'")


def build(root, site):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=250)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    built = build(ROOT, folder)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.mark.slow
class TestSite:
    @pytest.mark.parametrize(
        "page", ["index", "ARCHITECTURE", "evaluator", "evaluator/findings", "graph", "examples/embed_as_tool.py"]
    )
    def test_the_page_is_there(self, site, page):
        assert (site / f"{page}.html").is_file()

    @pytest.mark.parametrize("module", [egg_graph, egg_graph.evaluator], ids=lambda module: module.__name__)
    def test_every_public_name_is_on_its_page(self, site, module):
        text = (site / "api" / f"{module.__name__.rpartition('.')[2]}.html").read_text(encoding="utf-8")
        assert [name for name in module.__all__ if f'id="{module.__name__}.{name}"' not in text] == []

    def test_every_value_of_the_schema_is_on_its_page(self, site):
        text = (site / "api" / "schema.html").read_text(encoding="utf-8")
        assert [name for name in egg_graph.schema.__all__ if f'id="egg_graph.schema.{name}"' not in text] == []

    def test_figures_are_drawn_into_their_page(self, site):
        assert "<svg" in (site / "evaluator.html").read_text(encoding="utf-8").partition("<h1")[2]

    def test_no_page_fetches_a_font(self, site):
        assert [page for page in site.rglob("*.html") if "fonts.g" in page.read_text(encoding="utf-8")] == []


def test_broken_references_fail_the_build(tmp_path):
    broken = ["nowhere.md", "../src/nowhere.py", "index.md#nowhere"]
    shutil.copytree(ROOT / "docs", tmp_path / "docs", ignore=shutil.ignore_patterns("results", "api"))
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for file in ("ARCHITECTURE.md", "mkdocs.yml"):
        shutil.copy(ROOT / file, tmp_path)
    links = " ".join([*(f"[a]({link})" for link in broken), "[a][egg_graph.nowhere]"])
    (tmp_path / "docs" / "index.md").write_text(f"# Start\n\n{links}\n", encoding="utf-8")
    built = build(tmp_path, tmp_path / "site")
    assert built.returncode != 0
    assert [link for link in [*broken, "egg_graph.nowhere"] if link not in built.stdout + built.stderr] == []

"""The page in a real browser: it renders, fits, and runs no script."""

import re
import shutil
import subprocess

import pytest

from egg_graph.runs.results import write_report

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="no chromium or google-chrome on PATH to render the page with"),
]
OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-background-networking")


def browse(folder, *options):
    assert BROWSER is not None
    command = [BROWSER, *OPTIONS, f"--user-data-dir={folder / 'profile'}", *options, f"file://{folder / 'report.html'}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_renders_with_its_plots_and_no_script_runs(timed_run):
    write_report(timed_run)
    shown = browse(timed_run, "--dump-dom").stdout
    assert shown.count("<svg") == 3
    assert "keeps the contract" in shown
    assert "alert(" in shown and "<script" not in shown.lower().replace("&lt;script", "")


def test_prints_on_a_few_pages(timed_run, tmp_path):
    write_report(timed_run)
    browse(timed_run, f"--print-to-pdf={tmp_path / 'page.pdf'}", "--no-pdf-header-footer")
    pdf = (tmp_path / "page.pdf").read_bytes()
    assert pdf.startswith(b"%PDF")
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 8

"""The page and the table of a bench tell what the rows tell, stand alone, and give hostile text no foothold."""

import re
import shutil
import subprocess

import pytest

from egg_graph.bench.figures import Figures
from egg_graph.bench.output import write_bench
from egg_graph.bench.page import Trajectories
from egg_graph.bench.page import render as render_page
from egg_graph.bench.page.trajectory import compare
from egg_graph.bench.table import markdown as markdown_page
from egg_graph.schema import Environment
from tests.bench.made_up import made_up
from tests.report.conftest import write_run
from tests.report.test_page import Page


def render(results, runs):
    return render_page(results, Figures.of(results), Trajectories(runs))


def markdown(results):
    return markdown_page(results, Figures.of(results))


BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder of runs with one run in it, whose kernels are hostile."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "hostile").mkdir()
    write_run(folder / "hostile")
    return folder


@pytest.fixture(scope="module")
def results():
    """Forty rows; the first one has a run."""
    made = made_up(40)
    first, *others = made.rows
    return made.model_copy(update={"rows": (first.model_copy(update={"run": "hostile"}), *others)})


@pytest.fixture(scope="module")
def html(results, runs):
    return render(results, runs)


def test_every_problem_is_on_every_plot_and_has_its_place(html, results):
    page = Page(html)
    assert page.tags.count("svg") == 3
    places = {value for name, value in page.attributes if name == "id"}
    links = [value for name, value in page.attributes if name == "href"]
    assert len(places) == len(results.rows) and {link[1:] for link in links} <= places
    titles = re.findall(r"<title>([^<]*)</title>", html)
    for row in results.rows:
        in_lanes = [title for title in titles if title.startswith(f"{row.name}: {row.score:.3f}x")]
        assert len(in_lanes) == 2, "once among all, once in its class"
        assert row.kernel_ms is None or f"{row.name}: kernel {row.kernel_ms:.4g} ms" in " ".join(titles)


def test_the_page_tells_protocol_failures_losses_and_what_was_not_measured(html, results):
    text = Page(html).text
    for said in (
        "NVIDIA H200, driver 580.1, CUDA 13.0",
        "4 problems on 4 GPUs",
        "SM 1980 MHz",
        "tuned PyTorch not measured",
        "36 of 40",
        "reference kept (incorrect: wrong values): 1",
        "Furthest from it",
        "Handed over, and slower than the reference",
        "KernelBench's own definitions",
    ):
        assert said in text, said
    slowest = min(row.score for row in results.rows)
    assert f"{slowest:.3f}x" in text


def test_a_run_is_shown_with_each_kernel_and_its_difference(html):
    text = Page(html).text
    assert "out of bounds" in text and "<b>bold plan</b>" in text
    assert "-# broken" in text, "the second kernel lacks a line of the first"
    assert "Not shown" not in text and "No run was made." in text


def test_nothing_hostile_is_markup_and_nothing_is_fetched(html):
    page = Page(html)
    assert "alert('reason')" in page.text and "alert('kernel')" in page.text
    assert not {"script", "img", "link", "iframe"} & set(page.tags)
    assert "default-src 'none'" in html and "http" not in re.sub(r"http-equiv", "", html)


def test_a_run_whose_folder_is_gone_is_told(results, tmp_path):
    assert "Not shown:" in Page(render(results, tmp_path)).text


def test_without_a_gpu_no_speed_is_told(tmp_path):
    made = made_up(12, timed=False)
    html = render(made, tmp_path)
    assert "<svg" not in html and "not measured" in html
    page = markdown(made)
    assert "Nothing was timed" in page and "Geometric mean" not in page and "ratio" not in page.split("## Protocol")[0]


def test_the_table_tells_the_same(results):
    page = markdown(results)
    for said in (
        "36 of 40 problems have a right kernel, 36 were handed one",
        "| tuned PyTorch | not measured |",
        "KernelBench's own numbers, by its definitions:",
        "- reference kept (incorrect: wrong values) (1): level1/8_Problem_8",
        "Handed over below 1.0 (",
        "Furthest from the roofline: ",
        "| seeds | secret until the verdict, then kept with the row (36 of 40) |",
        "| repeats | 40 to 40 interleaved pairs",
    ):
        assert said in page, said
    rows = (results.rows[0].model_copy(update={"tuned_ms": 2 * results.rows[0].kernel_ms}), *results.rows[1:])
    tuned = markdown(results.model_copy(update={"rows": rows}))
    assert "| tuned PyTorch | measured for 1 of 40 problems (" in tuned and "Against tuned PyTorch: **1.0" in tuned
    assert "| 2.000 |" in next(line for line in tuned.splitlines() if line.startswith(f"| {rows[0].name} |"))
    half = results.model_copy(update={"rows": results.rows[:20]})
    assert "**The bench is not done: 20 of 40 problems.**" in markdown(half)


def test_a_difference_has_the_kind_of_every_line():
    found = compare("a\nb\nc", "a\nB\nc")
    assert [kind for _, kind in found] == ["at", "", "cut", "add", ""]


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="no chromium or google-chrome on PATH to render the page with")
@pytest.mark.parametrize(
    ("scheme", "paper"), [(1, "rgb(245, 246, 248)"), (0, "rgb(14, 17, 22)")], ids=["light", "dark"]
)
def test_a_browser_shows_it_in_light_and_dark(results, runs, tmp_path, scheme, paper):
    """Blink's schemes: 0 is dark, 1 is light. What the page's own colours come to is written into the title."""
    assert BROWSER is not None
    write_bench(tmp_path / "bench", results, Trajectories(runs))
    html = (tmp_path / "bench.html").read_text()
    probe = "document.title = getComputedStyle(document.body).backgroundColor + ' ' + document.body.scrollWidth"
    html = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", html)
    open_page = html.replace("</body>", f"<script>{probe}</script></body>")
    (tmp_path / "probed.html").write_text(open_page)
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--window-size=1200,900",
        "--disable-background-networking",
    ]
    command = [
        BROWSER,
        *options,
        f"--user-data-dir={tmp_path / 'profile'}",
        f"--blink-settings=preferredColorScheme={scheme}",
    ]
    done = subprocess.run(
        [*command, "--dump-dom", f"file://{tmp_path / 'probed.html'}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    title = re.search(r"<title>(rgb[^<]*)</title>", done.stdout)
    assert title is not None, done.stderr[-500:]
    assert title[1].startswith(paper)
    assert int(title[1].rsplit(" ", 1)[1]) <= 1200, "nothing is wider than the window"


def test_why_tuned_pytorch_was_asked_for_and_not_measured_is_told():
    results = made_up(3)
    rows = tuple(row.model_copy(update={"tuned_ms": None, "tuned": "no time was left"}) for row in results.rows)
    asked = results.model_copy(update={"rows": rows, "settings": {"tuned_baseline": True}})
    assert "Tuned PyTorch was asked for and not measured: no time was left." in markdown(asked)
    without = asked.model_copy(update={"environment": Environment(machine="Linux")})
    assert "not measured: it is timed, and there is no GPU where the bench was judged." in markdown(without)
    assert "was asked for" not in markdown(asked.model_copy(update={"settings": {}})) + markdown(results)

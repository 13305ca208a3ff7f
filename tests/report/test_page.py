"""The page says what the evidence says, stands alone, and gives hostile text no foothold."""

import json
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from egg_graph.report import read_run
from egg_graph.runs.results import write_report
from egg_graph.schema import BadInput

VOID = {"meta", "br", "link", "img", "input", "hr"}


class Page(HTMLParser):
    """Tags, attributes and visible text; fails on a tag that closes nothing."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.words, self.open = [], [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"style"} & set(self.open):
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


def page(folder):
    return Page(write_report(folder).read_text(encoding="utf-8"))


def test_tells_verdict_proofs_gaps_and_numbers(timed_run):
    text = page(timed_run).text
    for said in (
        "faster",
        "keeps the contract",
        "Not preserved infinities (minus_infinite inputs",
        "1.076x",
        "1.060 to 1.090",
        "0.262 ms against 0.281 ms",
        "0.251 ms",
        "NVIDIA H200",
        "580.1",
        "LDG.128 x 4",
    ):
        assert said in text, said
    assert "awkward" in text and "x [7, 31]" in text
    assert "bound_ms down: 0.4 to 0.2, held" in text
    assert "out of bounds" in text and "two <i>passes</i>" in text


def test_principles_are_shown_with_what_their_predictions_came_to(timed_run):
    assert "one_read_per_row 1 1 0 0 1" in page(timed_run).text


def test_a_run_that_followed_no_principle_has_no_table_of_them(kept_run):
    assert "Attempts that followed each expert principle" not in page(kept_run).text


def test_without_a_gpu_no_speed_is_told(untimed_run):
    text = page(untimed_run).text
    assert "a bound limits time from below and is never a speed" in text
    assert "≥ 0.218 ms" in text
    assert "speedup" not in text and "1.076" not in text


def test_a_kept_reference_has_its_verdict_and_no_kernel(kept_run):
    text = page(kept_run).text
    assert "The reference is kept: <em>nothing</em> was usable." in text
    assert "reference kept" in text


@pytest.mark.parametrize("run", ["timed_run", "untimed_run", "kept_run"])
def test_hostile_text_stays_text_and_nothing_is_fetched(run, request):
    shown = page(request.getfixturevalue(run))
    assert not {"script", "img", "iframe", "object", "link", "i", "em", "u"} & set(shown.tags)
    assert not [name for name, _ in shown.attributes if name.startswith("on")]
    outside = [v for name, v in shown.attributes if name in ("src", "href", "xlink:href") and not v.startswith("#")]
    assert outside == []
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'; img-src data:") in shown.attributes


def test_plots_are_inline_and_well_formed(timed_run):
    text = write_report(timed_run).read_text(encoding="utf-8")
    plots = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(plots) == 3
    identifiers = [node.get("id") for plot in plots for node in ElementTree.fromstring(plot).iter() if node.get("id")]
    clips = [name for name in identifiers if re.fullmatch(r"p[0-9a-f]{10}", name)]
    assert len(clips) == len(set(clips)), "two plots on one page share a clip path"
    assert "torch.compile 0.27 ms" in plots[0]


def test_the_same_evidence_gives_the_same_page(timed_run):
    assert write_report(timed_run).read_bytes() == write_report(timed_run).read_bytes()


def test_page_goes_where_it_is_told(timed_run, tmp_path):
    assert write_report(timed_run, out=tmp_path / "other.html") == tmp_path / "other.html"
    assert not (timed_run / "report.html").exists()


def test_evidence_of_a_newer_version_is_read(timed_run):
    evidence = json.loads((timed_run / "evidence.json").read_text())
    (timed_run / "evidence.json").write_text(json.dumps({**evidence, "later": 1}))
    assert read_run(timed_run).task.name == "softmax"


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("evidence.json", None, "holds no finished run"),
        ("evidence.json", "{", "evidence.json: damaged"),
        ("evidence.json", "[]", "not a JSON object"),
        ("evidence.json", "{}", "does not hold a run of this version"),
        ("history.jsonl", "{}\n{oops}\n", "history.jsonl:2: damaged"),
    ],
)
def test_damaged_folders_get_one_line(timed_run, file, content, says):
    (timed_run / file).unlink() if content is None else (timed_run / file).write_text(content)
    with pytest.raises(BadInput, match=says) as caught:
        write_report(timed_run)
    assert "\n" not in str(caught.value)


def test_a_folder_that_is_none(tmp_path):
    with pytest.raises(BadInput, match="is no run's folder"):
        write_report(tmp_path / "nowhere")

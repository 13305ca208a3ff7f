"""Ctrl-C ends a corpus run at once, however many files are left; what was judged is kept."""

import json

from tests.bench.trust.files import header, make_corpus
from tests.paths import read_source
from tests.runs.interrupting import interrupt, run
from tests.sample import thorough

REFUSED = "import os\n"


@thorough
def test_ctrl_c_ends_what_runs_and_begins_no_further_file(tmp_path):
    headers = {"a_refused": header("0", '["invalid"]')}
    headers |= {f"endless{number}": header(f"{number}", '["timeout"]') for number in range(1, 3)}
    corpus, out, temporary = make_corpus(tmp_path, **headers), tmp_path / "results.json", tmp_path / "tmp"
    temporary.mkdir()
    for file in corpus.iterdir():
        source = REFUSED if file.stem == "a_refused" else read_source("faults/infinite_loop.py")
        file.write_text(file.read_text() + source)
    words = ["-m", "egg_graph", "trust", "corpus", corpus, "--device", "none", "--timeout", 300, "--out", out]
    _, there, seconds, status = interrupt(run(temporary, *words))
    assert status == 130 and seconds < 15, "with the end of a whole Python process"
    assert not [each.command for each in there if each.alive]
    assert [row["header"]["id"] for row in json.loads(out.read_text())["rows"]] == ["0"]

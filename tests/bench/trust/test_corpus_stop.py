"""Ctrl-C ends a corpus run at once, however many files are left; what was judged is kept."""

import json
import os
import signal
import subprocess
import sys
import time

from tests.bench.trust.files import header, make_corpus
from tests.lab.processes import descendants
from tests.paths import IMPORTABLE, read_source
from tests.runs.test_interrupt import cwd

REFUSED = "import os\n"


def works(process):
    return "/job-" in cwd(process.pid) and process.cpu_seconds > 1


def test_ctrl_c_ends_what_runs_and_begins_no_further_file(tmp_path):
    headers = {"a_refused": header("0", '["invalid"]')}
    headers |= {f"endless{number}": header(f"{number}", '["timeout"]') for number in range(1, 3)}
    corpus = make_corpus(tmp_path, **headers)
    for file in corpus.iterdir():
        source = REFUSED if file.stem == "a_refused" else read_source("faults/infinite_loop.py")
        file.write_text(file.read_text() + source)
    out, calls = tmp_path / "results.json", tmp_path / "log"
    words = ["trust", "corpus", corpus, "--device", "none", "--timeout", 300, "--out", out]
    environment = {**os.environ, "PYTHONPATH": IMPORTABLE, "COLUMNS": "300"}
    with calls.open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "egg_graph", *map(str, words)], env=environment, stdout=log, stderr=log
        )
    try:
        until = time.monotonic() + 90
        while not (out.exists() and any(works(each) for each in descendants(process.pid))):
            assert process.poll() is None and time.monotonic() < until, calls.read_text()
            time.sleep(0.1)
        there, began = descendants(process.pid), time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert time.monotonic() - began < 15, "with the end of a whole Python process"
    finally:
        process.kill()
    assert not [each.command for each in there if each.alive]
    assert [row["header"]["id"] for row in json.loads(out.read_text())["rows"]] == ["0"]

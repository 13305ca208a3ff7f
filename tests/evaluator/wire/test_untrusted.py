"""Files and text of a candidate's process: half characters, bottomless nests, pipes and links."""

import json
import os
from pathlib import Path

import pytest

from egg_graph.evaluator.host.fork_server import read_tail
from egg_graph.evaluator.wire.exchange import ExchangeError, load
from egg_graph.evaluator.wire.untrusted import open_file, parse


@pytest.mark.parametrize("text", ['{"a": "\\ud800"}', b'{"\\uD800": ["\\udfff"]}'])
def test_what_is_parsed_can_be_stored(text: str | bytes) -> None:
    assert "?" in json.dumps(parse(text), ensure_ascii=False).encode("utf-8").decode()


def test_whole_characters_stay() -> None:
    assert parse('["\\ud83d\\ude00", "\\u00e4"]') == ["\U0001f600", "\u00e4"]


def test_bottomless_nests_are_no_json() -> None:
    with pytest.raises(ValueError, match="deeply"):
        parse("[" * 200_000)


@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_only_files_are_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "answer.json"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    with pytest.raises(OSError):
        open_file(path)
    with pytest.raises(ExchangeError):
        load(tmp_path, "answer")
    assert read_tail(path) == ""

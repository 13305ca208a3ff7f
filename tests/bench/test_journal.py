"""The journal: what a bench goes on from."""

import pytest

from egg_graph.bench.journal import Journal, Key
from egg_graph.bench.values import Row
from egg_graph.schema import BadInput
from tests.bench.made_up import made_up

FRESH = made_up(0)


def row(name, status="faster", source="1"):
    return Row(name=name, source=source, task="", status=status, reason="")


@pytest.fixture
def path(tmp_path):
    """A journal with a row, a row without a run, and a run that was begun."""
    path = tmp_path / "bench.jsonl"
    with Journal(path, FRESH) as journal:
        journal.finish(row("done"))
        journal.finish(row("broken", "bad_input"))
        journal.begin(Key("half", "", "1"), "run-1")
    return path


def test_rows_and_begun_runs_are_kept_and_a_torn_line_is_dropped(path):
    text = path.read_bytes()
    path.write_bytes(text + b'{"row":{"name":"torn')
    with Journal(path, FRESH) as journal:
        assert [key.name for key in journal.rows] == ["done", "broken"]
        assert journal.begun == {Key("half", "", "1"): "run-1"}
        assert Key("done", "", "2") not in journal.rows, "a reference that was edited is another problem"
        journal.finish(row("next"))
    assert path.read_bytes().startswith(text)
    with Journal(path, FRESH) as journal:
        assert "next" in {key.name for key in journal.rows}


def test_what_could_not_be_made_is_run_again_if_asked_and_everything_if_begun_anew(path):
    with Journal(path, FRESH, retry=True) as journal:
        assert [key.name for key in journal.rows] == ["done"]
    with Journal(path, FRESH, anew=True) as journal:
        assert journal.rows == {} and journal.begun == {}


def test_only_one_process_works_on_a_bench(path):
    with Journal(path, FRESH), pytest.raises(BadInput, match="another process is at work on this bench"):
        Journal(path, FRESH)


@pytest.mark.parametrize(
    "change", [{"suite": "x"}, {"code": "x"}, {"settings": {}}, {"runs_dir": "x"}, {"model": "gpt"}]
)
def test_rows_of_other_terms_do_not_mix(path, change):
    with pytest.raises(BadInput, match=f"begun with other {next(iter(change))}"):
        Journal(path, FRESH.model_copy(update=change))
    later = FRESH.model_copy(update={"started": "later", "problems": 9, "command": "other problems"})
    with Journal(path, later) as journal:
        assert journal.results.started == FRESH.started, "more problems may join; the first start is told"

"""`egg-graph memory`: what it lists on a narrow terminal, and what it says where nothing can be remembered."""

import pytest
from typer.testing import CliRunner

from egg_graph.calls import run
from egg_graph.cli import app
from egg_graph.memory import LessonStore
from egg_graph.memory.on_disk import open_memory
from tests.memory.test_hostile_text import lesson


@pytest.fixture
def memory(monkeypatch, tmp_path):
    """Run the command with a file of its own."""

    def invoke(*words, columns=80, path=tmp_path / "memory.sqlite"):
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("EGG_GRAPH_MEMORY", str(path))
        return CliRunner().invoke(app, ["memory", *words])

    with open_memory(tmp_path / "memory.sqlite") as store:
        kept = [lesson(plan=f"{name} " * 30, kernel=name, outcome="no_better") for name in ("one", "other")]
        run(LessonStore(store, "h200").keep(kept))
    return invoke


@pytest.mark.parametrize("columns", [80, 160])
def test_the_list_cuts_nothing(memory, columns):
    result = memory("list", columns=columns)
    assert result.exit_code == 0 and "…" not in result.output
    assert all(len(line.rstrip()) <= columns for line in result.output.splitlines() if "wider terminal" not in line)
    for told in ("row_reduction", "algorithmic_structure", "not accepted", "2.00x"):
        assert result.output.count(told) == 2, told
    assert result.output.count("other ") == 30
    assert ("bottleneck" in result.output) == (columns == 160) != ("memory show KEY" in result.output)


@pytest.mark.parametrize("words", [["list"], ["forget", "--all"]])
def test_a_file_that_cannot_be_is_the_machines_fault(memory, tmp_path, words):
    (tmp_path / "broken").write_text("no database, but longer than the header of one " * 10)
    for path in (tmp_path / "broken", tmp_path / "broken" / "below" / "memory.sqlite"):
        result = memory(*words, path=path)
        assert result.exit_code == 3 and len(result.stderr.splitlines()) == 1
        assert "cannot be used: " in result.stderr and "delete it if it is damaged" in result.stderr
        assert "--no-memory" not in result.stderr, "these commands have no such option"
    assert "nothing is remembered in" in memory("list", path=tmp_path / "new" / "memory.sqlite").output
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("words", [["list"], ["forget", "--all"]])
def test_a_gpu_of_which_nothing_is_kept_is_told(memory, words):
    result = memory(*words, "--gpu", "nosuch")
    assert result.exit_code == 2
    assert "nothing is remembered of the GPU 'nosuch'; there are lessons of h200" in result.stderr

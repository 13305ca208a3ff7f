"""The memory on disk: where it is, who may use it at once, what is told where it fails."""

import multiprocessing

import pytest

from egg_graph.calls import run as call
from egg_graph.memory import LessonStore
from egg_graph.memory.on_disk import memory_path, open_memory
from egg_graph.schema import InfrastructureError
from tests.memory.measured import lessons_in
from tests.memory.test_hostile_text import lesson


def test_the_file_is_where_the_environment_says(monkeypatch, tmp_path):
    monkeypatch.delenv("EGG_GRAPH_MEMORY")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert memory_path() == tmp_path / "egg-graph" / "memory.sqlite"
    monkeypatch.setenv("EGG_GRAPH_MEMORY", str(tmp_path / "mine.sqlite"))
    assert memory_path() == tmp_path / "mine.sqlite"


def _learn(path, number, begin):
    begin.wait()
    with open_memory(path) as store:
        lessons = LessonStore(store, "h200")
        call(lessons.keep([lesson(kernel=f"{number} {n}") for n in range(8)]))
        call(lessons.retract({lesson(kernel=f"{number} 0").key: "measured again"}))


def test_several_processes_make_and_fill_one_file_at_once_and_lose_nothing(tmp_path):
    forked, path = multiprocessing.get_context("fork"), tmp_path / "new" / "memory.sqlite"
    begin = forked.Barrier(4)
    processes = [forked.Process(target=_learn, args=(path, number, begin)) for number in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * 4
    with open_memory(path) as store:
        kept = lessons_in(store)
    assert (len(kept.lessons), len(kept.retracted), len(kept.holding)) == (32, 4, 28)


def test_a_file_that_cannot_be_used_is_told_in_one_line(tmp_path):
    path = tmp_path / "memory.sqlite"
    path.write_text("no database, but longer than the header of one " * 10)
    with (
        pytest.raises(InfrastructureError, match=r"memory\.sqlite cannot be used: .*--no-memory") as error,
        open_memory(path),
    ):
        pass
    assert "\n" not in str(error.value)
    with pytest.raises(InfrastructureError, match="cannot be used"), open_memory(path / "below"):
        pass

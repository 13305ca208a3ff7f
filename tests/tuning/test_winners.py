"""The store of winners: what counts as the same situation, who wins of several, several writers, damage."""

import multiprocessing
from pathlib import Path

import pytest

from egg_graph.schema import BadInput, Baseline, Environment, KernelTask
from egg_graph.tuning import Winner, add_winner, find_winner, situation_of, user_store
from egg_graph.tuning.kernel_class import kernel_digest, shape_class
from egg_graph.tuning.winners import SHIPPED, read_store

KERNEL = 'CONFIG = {"BLOCK": 64}\nSPACE = {"tensor_tiling": {"BLOCK": [64, 128]}}\nlaunch(CONFIG["BLOCK"])\n'


def winner(h200, block: int = 64, *, gpu: str = "NVIDIA H200", triton: str = "3.6.0", **others) -> Winner:
    machine = Environment(machine="Linux", gpu=gpu, driver="580.1", triton=triton)
    task = KernelTask(name="relu", reference="", target=h200)
    baseline = Baseline(task=task.digest, inputs={"x": f"float32[{others.pop('rows', 16)}]"}, environment=machine)
    situation = situation_of(task, baseline, others.pop("source", KERNEL))
    assert situation is not None
    named = {"task": "relu", "run": "1", "created": "2026-01-01T00:00:00+00:00", **others}
    return Winner(
        situation=situation, config={"BLOCK": block}, milliseconds=1.0, own_milliseconds=2.0, tried=3, **named
    )


def test_a_kernel_is_the_same_under_other_knobs_and_another_one_under_other_code():
    other_knobs = KERNEL.replace("[64, 128]", "[32]").replace('"BLOCK": 64}', '"BLOCK": 8}') + "# tuned\n"
    assert kernel_digest(other_knobs) == kernel_digest(KERNEL)
    assert kernel_digest(KERNEL.replace("launch", "call")) != kernel_digest(KERNEL)
    assert kernel_digest(KERNEL.replace('"BLOCK": 64', '"BLOCK": 64, "STAGES": 2')) != kernel_digest(KERNEL)
    assert kernel_digest("def (") == kernel_digest("def (")


@pytest.mark.parametrize(
    ("shape", "other", "same"),
    [
        ("float32[16, 1000]", "float32[16, 1016]", True),
        ("float32[16, 1000]", "float32[16, 1008]", False),  # a multiple of 16
        ("float32[1024]", "float32[1025]", False),
        ("float32[3, 528]", "float32[5, 528]", False),  # small sizes count as they are
        ("float32[64]", "bfloat16[64]", False),
        ("float32[48]", "float32[64]", True),
        ("int", "float", False),
    ],
)
def test_shapes_are_classed_by_their_power_of_two_and_their_alignment(shape, other, same):
    one, two = (shape_class(Baseline(task="t", inputs={"x": form})) for form in (shape, other))
    assert (one == two) is same


def test_without_a_gpu_there_is_no_situation(h200):
    task = KernelTask(name="relu", reference="", target=h200)
    assert situation_of(task, Baseline(task="t", environment=Environment(machine="Linux")), KERNEL) is None
    assert situation_of(task, Baseline(task="t"), KERNEL) is None


def test_the_same_versions_go_first_and_of_others_the_newest(h200, tmp_path):
    mine, shipped = tmp_path / "new" / "mine.json", tmp_path / "shipped.json"
    here = winner(h200).situation
    assert find_winner(here, mine, shipped) is None, "neither exists"
    for path, known in (
        (shipped, winner(h200, 2, triton="3.5.0", created="2025-01-01T00:00:00+00:00")),
        (mine, winner(h200, 3, triton="3.4.0", created="2025-02-01T00:00:00+00:00")),
        (mine, winner(h200, 4, gpu="NVIDIA H100")),
        (mine, winner(h200, 5, rows=17)),
        (mine, winner(h200, 6, source=KERNEL + "launch(1)\n")),
    ):
        add_winner(path, known)
    assert find_winner(here, mine, shipped).config == {"BLOCK": 3}
    add_winner(shipped, winner(h200, 7))
    assert find_winner(here, mine, shipped).config == {"BLOCK": 7}
    add_winner(mine, winner(h200, 8))
    add_winner(mine, winner(h200, 9))
    assert find_winner(here, mine, shipped).config == {"BLOCK": 9}, "the user's own, and of it the last"
    assert len(read_store(mine)) == 5


def write(path: Path, known: list[Winner]) -> None:
    for one in known:
        add_winner(path, one)


def test_several_processes_write_and_none_loses_anothers(h200, tmp_path):
    path = tmp_path / "winners.json"
    known = [winner(h200, rows=rows) for rows in range(1, 13)]
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=write, args=(path, known[part::3])) for part in range(3)]
    for process in writers:
        process.start()
    for process in writers:
        process.join()
    assert [process.exitcode for process in writers] == [0, 0, 0]
    assert {one.situation.shapes for one in read_store(path)} == {one.situation.shapes for one in known}


@pytest.mark.parametrize(
    ("text", "said"),
    [("{", "mend it or remove it"), ("[]", "mend it or remove it"), ('{"format": 9}', "of format 9")],
)
def test_a_damaged_store_is_told_in_one_line(tmp_path, h200, text, said):
    path = tmp_path / "winners.json"
    path.write_text(text)
    with pytest.raises(BadInput, match=said):
        find_winner(winner(h200).situation, path)
    with pytest.raises(BadInput, match=said):
        add_winner(path, winner(h200))
    assert path.read_text() == text


def test_the_users_store_lies_where_xdg_says(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert user_store() == tmp_path / "egg-graph" / "winners.json"
    monkeypatch.delenv("XDG_DATA_HOME")
    assert user_store() == Path.home() / ".local" / "share" / "egg-graph" / "winners.json"


def test_the_store_that_ships_is_read_and_holds_what_a_gpu_measured():
    shipped = read_store(SHIPPED)
    assert shipped and {one.situation.gpu for one in shipped} == {"NVIDIA H200"}
    assert all(one.milliseconds > 0 and one.tried > 1 and one.run for one in shipped)

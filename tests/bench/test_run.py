"""A bench from its options to its files, with a worker that is a process of its own."""

import io
import json
import time

import pytest
from langgraph.store.memory import InMemoryStore
from rich.console import Console

from egg_graph import optimize
from egg_graph.bench import Results, Row, find_problems, run_bench
from egg_graph.bench.dispatch import Place
from egg_graph.bench.protocol_card import protocol
from egg_graph.bench.run import Display
from egg_graph.bench.values import row_of
from egg_graph.bench.worker import Job, Worker
from egg_graph.bench.worker import Settings as WorkerSettings
from egg_graph.cli.bench_progress import BenchProgress
from egg_graph.evaluator import SpoolEvaluator
from egg_graph.schema import BadInput
from egg_graph.tuning import read_store
from tests.bench import fake
from tests.bench.made_up import GPU
from tests.graph.scripted import REFERENCE, ScriptedEvaluator, ScriptedTeam, StatelessTeam, kernel, tunable

PARTS = "tests.bench.fake:parts"


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A bench of a reference and of a file that is no Python, with one ablation."""
    folder = tmp_path_factory.mktemp("bench")
    fake.write_suite(folder / "suite", "a_relu", "defect_relu")
    (folder / "broken.py").write_text("def (\n")
    (folder / "list.txt").write_text("suite/a_relu.py\nbroken.py\nsuite/defect_relu.py\n")
    seen = []
    again(folder, display=Display(row=seen.append))
    return folder, seen


def again(folder, **options):
    """The same bench once more; options change it."""
    fixed = {"device": "none", "max_optimizations": 0, "without": ("debugger",), "parts": PARTS}
    problems = find_problems(str(folder / "list.txt"))
    return run_bench(problems, folder / "out" / "mine", runs_dir=folder / "runs", **{**fixed, **options})


def test_every_problem_has_a_row_for_the_whole_and_for_the_ablation(done):
    folder, seen = done
    rows = json.loads((folder / "out" / "mine.json").read_text())["rows"]
    assert [(row["name"], row["without"], row["status"]) for row in rows] == [
        ("a_relu", "", "faster"),
        ("a_relu", "debugger", "reference_kept"),
        ("broken", "", "bad_input"),
        ("broken", "debugger", "bad_input"),
        ("defect_relu", "", "infra_error"),
        ("defect_relu", "debugger", "infra_error"),
    ]
    assert [row.name for row in seen] == [row["name"] for row in rows]
    assert rows[1]["cause"] == "incorrect: wrong_values"
    assert "no Python" in rows[2]["reason"]
    assert rows[4]["reason"] == "a defect of egg-graph, told in the log: ZeroDivisionError: nobody meant this"
    assert "Traceback" in (folder / "out" / "mine.log").read_text()


def test_a_bench_that_is_done_measures_nothing_again(done):
    folder, _ = done
    seen = []
    before = (folder / "out" / "mine.md").read_text()
    again(folder, display=Display(row=seen.append))
    assert seen == []
    assert (folder / "out" / "mine.md").read_text() == before


def test_another_selection_of_the_suite_adds_to_what_there_is(done):
    folder, _ = done
    (folder / "list.txt").rename(folder / "whole.txt")
    try:
        (folder / "list.txt").write_text("suite/a_relu.py\n")
        results = again(folder, without=(), command="egg-graph bench list.txt --only 'a_*'")
    finally:
        (folder / "whole.txt").rename(folder / "list.txt")
    assert [row.name for row in results.whole] == ["a_relu", "broken", "defect_relu"]
    assert results.problems == 3 and len(results.rows) == 6 and results.without == ("debugger",)
    page = (folder / "out" / "mine.md").read_text()
    assert "of 3 problems have a right kernel" in page and "| command | egg-graph bench list.txt --only 'a_*' |" in page
    again(folder)


def test_other_terms_are_refused_and_a_damaged_journal_is_told(done):
    folder, _ = done
    with pytest.raises(
        BadInput, match=r"begun with other settings \(precision tf32 -> ieee\); give another --out, or --anew"
    ):
        again(folder, precision="ieee")
    with pytest.raises(
        BadInput, match=r"begun with other suite \(.* -> another folder\); give another --out, or --anew"
    ):
        again(folder, suite="another folder")
    with pytest.raises(BadInput, match="choose among tuner, stage-one"):
        again(folder, without=("luck",))
    with pytest.raises(BadInput, match=r"no function 'tests.*nothing'"):
        again(folder, parts="tests.bench.fake:nothing")
    journal = folder / "out" / "other.jsonl"
    journal.write_text('{"terms": 1\n')
    with pytest.raises(BadInput, match=r"other\.jsonl:1: damaged"):
        run_bench(find_problems(str(folder / "list.txt")), folder / "out" / "other", runs_dir=folder / "runs")
    journal.write_text("[1]\n")
    with pytest.raises(BadInput, match="no journal of a bench"):
        run_bench(find_problems(str(folder / "list.txt")), folder / "out" / "other", runs_dir=folder / "runs")


def test_a_judge_elsewhere_tells_the_machine_and_the_gpu_to_write_for(tmp_path, monkeypatch):
    with pytest.raises(BadInput, match="give a URL, spool:FOLDER"):
        run_bench((), tmp_path / "out", runs_dir=tmp_path, evaluator="nowhere")
    worker = Worker(WorkerSettings(runs_dir="", evaluator=f"spool:{tmp_path}"), print, print)
    judge = worker.services["evaluator"]
    assert isinstance(judge, SpoolEvaluator)
    monkeypatch.setattr(SpoolEvaluator, "environment", lambda self: GPU)
    results = run_bench((), tmp_path / "out", runs_dir=tmp_path, evaluator=f"spool:{tmp_path}", workers=3)
    assert results.environment == GPU and "H200" in results.target
    card = dict(protocol(results))
    assert (card["judged by"], card["at once"]) == (f"spool:{tmp_path}", "3 problems")


def test_no_run_of_a_bench_learns_from_another_and_the_card_says_so(done, tmp_path):
    folder, _ = done
    with pytest.raises(BadInput, match=r"^memory: a bench runs without it, [^\n]*$"):
        run_bench((), tmp_path / "out", runs_dir=tmp_path, memory=True)
    data = json.loads((folder / "out" / "mine.json").read_text())
    data.pop("summary")
    card = dict(protocol(Results.model_validate(data)))
    assert data["settings"]["memory"] is False and card["memory"].startswith("off") and "memory" not in card["knobs"]
    requests = [json.loads(path.read_text()) for path in (folder / "runs").glob("*/run.json")]
    assert requests and not any(request["context"]["memory"] for request in requests)
    worker = Worker(WorkerSettings(runs_dir=str(tmp_path), parts=PARTS), print, print)
    worker.services["store"] = InMemoryStore()
    row = worker.do(Job(name="a_relu", path=str(folder / "suite" / "a_relu.py"), knobs={"memory": False}))
    assert (row.status, row.reason.partition(":")[0]) == (
        "bad_input",
        "a store is given, and memory is off (memory=False)",
    )


def test_the_winner_of_every_sweep_goes_into_the_store_that_is_to_ship(tmp_path, monkeypatch):
    suite, store = fake.write_suite(tmp_path / "suite", "a_relu", "kept_relu"), tmp_path / "ship" / "winners.json"
    worker = Worker(WorkerSettings(runs_dir=str(tmp_path), store_out=str(store), parts=PARTS), dict, dict)
    worker.services["team"] = StatelessTeam([tunable("timed", 3.0, "tensor_tiling", [3.0, 2.0])], worth=(False,))
    baseline = fake.FakeEvaluator.baseline
    on_gpu = {"environment": GPU}
    monkeypatch.setattr(fake.FakeEvaluator, "baseline", lambda *given: baseline(*given).model_copy(update=on_gpu))
    for name in ("a_relu", "kept_relu"):
        job = Job(name=name, path=str(suite / f"{name}.py"), knobs={"memory": False, "target": "h200"})
        assert worker.do(job).status == ("faster" if name == "a_relu" else "reference_kept")
    (winner,) = read_store(store)
    assert (winner.config, winner.task, winner.situation.gpu) == ({"NUMBER": 2.0}, "a_relu", GPU.gpu)
    store.write_text("{")
    with pytest.raises(BadInput, match="mend it or remove it"):
        run_bench((), tmp_path / "out", runs_dir=tmp_path, store_out=store)


def test_progress_is_one_line_a_problem_with_the_time_left():
    console = Console(file=io.StringIO(), width=200, highlight=False)
    with BenchProgress(console) as progress:
        progress.start(4, 1)
        progress.show_row(Row(name="[b]a", task="", status="faster", reason="", ratio=1.5))
        progress.show_row(Row(name="b", task="", status="bad_input", reason="no Python", without="tuner"))
        progress.show_row(Row(name="c", task="", status="reference_kept", reason="kept", resumed=True))
    began, first, second, third, last = console.file.getvalue().splitlines()
    assert (began, first) == ("starts the judges", "1 of 4 are done already")
    assert second.split() == ["2/4", "[b]a", "faster", "1.500x", "0:00:00", "left"]
    assert "3/4 b without tuner  bad input  no Python" in third
    assert last.endswith("reference kept  resumed  kept  done")


def test_a_long_silence_tells_what_every_place_is_at(monkeypatch):
    console = Console(file=io.StringIO(), width=200)
    monkeypatch.setattr("egg_graph.cli.bench_progress.QUIET", 0.0)
    with BenchProgress(console) as progress:
        progress.show_places([Place(0, "GPU-a", job=Job(name="a", path=""), since=time.monotonic(), doing="compiles")])
    assert console.file.getvalue().splitlines()[1:] == ["0 a compiles, 0 s"]


def test_on_a_terminal_every_place_tells_what_it_is_at():
    console = Console(file=io.StringIO(), width=200, force_terminal=True)
    with BenchProgress(console) as progress:
        progress.start(2, 0)
        progress.show_places(
            [Place(0, "GPU-a", job=Job(name="[b]a", path=""), since=time.monotonic(), doing="compiles")]
        )
        progress._live.refresh()
    assert "[b]a" in console.file.getvalue() and "compiles, 0 s" in console.file.getvalue()


def test_an_attempt_that_only_looked_right_is_not_right(tmp_path, monkeypatch):
    monkeypatch.setattr("egg_graph.report.render", lambda run: "not the subject")
    team = ScriptedTeam([kernel("flaky", 2.0)], worth=(False,))
    run = optimize(REFERENCE, team=team, evaluator=ScriptedEvaluator(), runs_dir=tmp_path, target="h100")
    row = row_of(run, name="flaky")
    assert (row.status, row.right, row.cause) == ("reference_kept", False, "rejected as a finalist")

"""`egg-graph tune` as a user meets it: one table, the gain, the store of winners, and what is said without a clock."""

import functools
import json

import pytest
from langgraph.store.memory import InMemoryStore
from typer.testing import CliRunner

import egg_graph
from egg_graph.cli import app
from egg_graph.runs.evaluations import RecordedEvaluator, ReplayEvaluator
from egg_graph.schema import AnswerPending, BadInput, Candidate, Draft, Environment, KernelResources, KernelTask, Trial
from egg_graph.tuning.winners import read_store
from tests.graph.scripted import REFERENCE, ScriptedEvaluator, ScriptedTeam, kernel, tunable

MACHINE = Environment(machine="Linux", gpu="NVIDIA H200", driver="580.1", triton="3.6.0")
STAGE = "memory_optimization"


class OnGpu(ScriptedEvaluator):
    """Has a GPU, and tells of compiled kernels; a NUMBER above 90 is pruned."""

    def __init__(self, **options):
        super().__init__(clock=True, **options)
        self.configs = []

    def baseline(self, task):
        return super().baseline(task).model_copy(update={"environment": MACHINE})

    def screen(self, task, candidates):
        self.configs.append([candidate.config["NUMBER"] for candidate in candidates])
        compiled = KernelResources(
            kernel="tile", target="sm_90", grid=(1,), num_warps=4, num_stages=2,
            registers=168, spill_bytes=8, shared_bytes=96 * 1024, occupancy=0.25,
        )  # fmt: skip
        trials = [trial.model_copy(update={"resources": (compiled,)}) for trial in super().screen(task, candidates)]
        return tuple(
            Trial(config=trial.config, status="pruned", reason="not run: spills 900 bytes")
            if trial.config["NUMBER"] > 90
            else trial
            for trial in trials
        )


@pytest.fixture
def tune(tmp_path, monkeypatch):
    """Run the command on a kernel's text in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (tmp_path / "relu.py").write_text(REFERENCE)

    def run(text, *words, evaluator):
        (tmp_path / "kernel.py").write_text(text)
        monkeypatch.setattr(egg_graph, "tune", functools.partial(real, evaluator=evaluator, principles=()))
        return CliRunner().invoke(app, ["tune", "relu.py", "--kernel", "kernel.py", "--target", "h200", *words])

    real = egg_graph.tune
    return run


def test_a_sweep_is_told_as_one_table_with_the_gain_and_kept(tune, tmp_path):
    space = tunable("timed", 3.0, STAGE, [3.0, 2.0, 99.0])
    result = tune(space, "--store-out", "ship/winners.json", evaluator=OnGpu())
    assert result.exit_code == 0, result.output
    rows = {line.split()[0]: line.split()[1:] for line in result.output.splitlines() if line.startswith("  NUMBER=")}
    assert rows["NUMBER=3.0"] == ["168", "8", "96", "25%", "3"]
    assert rows["NUMBER=2.0"] == ["168", "8", "96", "25%", "2", "fastest"]
    assert rows["NUMBER=99.0"][:5] == ["-"] * 5 and "NUMBER=99.0: pruned: not run: spills 900 bytes" in result.output
    assert "tuned: 3 ms -> 2 ms, 1.50x over the kernel's own configuration" in result.output
    (folder,) = (tmp_path / "runs").iterdir()
    assert "print(2.0)" in (folder / "kernel.py").read_text()
    tunable_text = (folder / "tunable.py").read_text()
    assert tunable_text == space.replace("CONFIG = {'NUMBER': 3.0}", "CONFIG = {'NUMBER': 2.0}") != space
    (sweep,) = json.loads((folder / "evidence.json").read_text())["sweeps"]
    assert sweep["winner"] == {"NUMBER": 2.0} and len(sweep["trials"]) == 3
    (mine,) = read_store(tmp_path / "data" / "egg-graph" / "winners.json")
    assert (mine.config, mine.milliseconds, mine.own_milliseconds, mine.run) == ({"NUMBER": 2.0}, 2.0, 3.0, folder.name)
    assert mine.situation.gpu == "NVIDIA H200" and mine.situation.triton == "3.6.0"
    assert read_store(tmp_path / "ship" / "winners.json") == (mine,)
    assert result.output.splitlines()[-1].startswith("time ")


def test_what_won_before_is_tried_second_and_judged_anew(tune, tmp_path):
    values = [9.0, 8.0, 7.0, 2.0]
    first, again = OnGpu(), OnGpu()
    tune(tunable("timed", 9.0, STAGE, values), evaluator=first)
    assert first.configs == [values]
    tune(tunable("timed", 8.0, STAGE, values), "--max-configs", "2", evaluator=again)
    assert again.configs == [[8.0, 2.0]]
    assert len(again.evaluated) == 2 and len(again.finalists) == 1


def optimized(tmp_path, text, **options):
    """What each sweep of a run of `optimize` tried, and what was left out; one sweep stands for all stages."""
    evaluator, left_out = OnGpu(), []
    egg_graph.optimize(
        REFERENCE, name="relu", team=ScriptedTeam([text]), evaluator=evaluator, principles=(), target="h200",
        sweep="knobs", max_optimizations=0, runs_dir=tmp_path / "runs",
        on_event=lambda event: left_out.append(event["reason"]) if event["event"] == "sweep" else None, **options,
    )  # fmt: skip
    return evaluator.configs, left_out


def test_a_run_with_memory_stores_its_winner_and_the_next_sweep_is_a_short_one(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    values = [9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0]
    text = tunable("timed", 9.0, STAGE, values)
    assert optimized(tmp_path, text) == ([values], [])
    (folder,) = (tmp_path / "runs").iterdir()
    again = text.replace("CONFIG = {'NUMBER': 9.0}", "CONFIG = {'NUMBER': 2.0}")
    assert (folder / "tunable.py").read_text() == again != text, "a run of optimize leaves what tune takes"
    assert not (tmp_path / "data").exists(), "without memory nothing is kept"
    assert optimized(tmp_path, text, store=InMemoryStore()) == ([values], [])
    (kept,) = read_store(tmp_path / "data" / "egg-graph" / "winners.json")
    assert (kept.config, kept.own_milliseconds, kept.tried) == ({"NUMBER": 2.0}, 9.0, 8)
    short, left_out = optimized(tmp_path, text)
    assert short == [[9.0, 2.0, 8.0, 7.0, 6.0, 5.0]]
    assert left_out == ["NUMBER 4.0, 3.0 left out: a stored winner is known: `egg-graph tune` tries more"]


def test_all_knobs_turn_together(tune):
    evaluator = OnGpu()
    text = kernel("timed", 3.0) + (
        'CONFIG = {"NUMBER": 3.0, "warps": 4}\n'
        'SPACE = {"tensor_tiling": {"NUMBER": [2.0]}, "parallel_mapping": {"warps": [8]}}\n'
        'print(CONFIG["NUMBER"], CONFIG["warps"])\n'
    )
    tune(text, evaluator=evaluator)
    assert evaluator.screened == [4]


def test_without_a_clock_the_figures_are_told_and_nothing_is_ranked_or_stored(tune, tmp_path):
    result = tune(tunable("ok", 9.0, STAGE, [9.0, 7.0]), evaluator=ScriptedEvaluator())
    assert result.exit_code == 0, result.output
    assert "no clock here: the figures are the compiler's for NVIDIA H200" in result.output
    assert "1 other configuration tried; nothing is timed here: none is chosen" in result.output
    assert "fastest" not in result.output.partition("no clock")[0] and "tuned:" not in result.output
    assert "print(9.0)" in next((tmp_path / "runs").glob("*/kernel.py")).read_text(), "its own configuration is kept"
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (kernel("timed", 3.0), "kernel.py has no SPACE to sweep: at module level write CONFIG = {"),
        (tunable("timed", 3.0, STAGE, [3.0]), "has no SPACE to sweep: at module level"),
        (
            tunable("timed", 3.0, STAGE, [3.0, 2.0]).replace("SPACE = {", "SPACE = {'x': {}, "),
            "kernel.py: SPACE at line 3: no stage 'x'; the stages are algorithmic_structure, parallel_mapping, ",
        ),
        (
            tunable("timed", 3.0, STAGE, [3.0, 2.0]).replace("'NUMBER': [", "'WARPS': [4], 'NUMBER': ["),
            "turns a knob that CONFIG lacks; CONFIG has NUMBER: mend it, for it would not be swept",
        ),
        (
            tunable("timed", 3.0, STAGE, [3.0, 2.0]).replace("print(CONFIG", "print({}"),
            "turns a knob that the module never reads (of CONFIG it reads none)",
        ),
        ("def f(:\n", "kernel.py is not valid Python: "),
    ],
)
def test_a_kernel_without_a_choice_is_told_how_to_write_one(tune, tmp_path, text, said):
    result = tune(text, evaluator=OnGpu())
    assert result.exit_code == 2
    assert said in result.stderr and len(result.stderr.splitlines()) == 1
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--max-configs", "1"], "max_configs (--max-configs) is 1: a sweep compares at least 2 configurations"),
        (["--store-out", "relu.py/winners.json"], "the store of winners cannot be written"),
    ],
)
def test_what_could_not_end_well_is_refused_before_it_starts(tune, tmp_path, words, said):
    result = tune(tunable("timed", 3.0, STAGE, [3.0, 2.0]), *words, evaluator=OnGpu())
    assert result.exit_code == 2 and said in result.stderr and len(result.stderr.splitlines()) == 1
    assert not (tmp_path / "runs").exists()


def test_options_that_make_it_no_sweep_are_refused():
    for option in ({"sweep": "stage"}, {"model": "openai:gpt-5"}, {"memory": True}):
        with pytest.raises(BadInput, match=r"tune (makes one sweep with|takes no) "):
            egg_graph.tune(REFERENCE, **option)


@pytest.mark.parametrize("command", ["tune", "optimize"])
def test_a_stopped_tune_goes_on_as_one(tune, tmp_path, monkeypatch, command):
    class Stopped(OnGpu):
        def screen(self, task, candidates):
            raise AnswerPending("no answer yet")

    space = tunable("timed", 3.0, STAGE, [3.0, 2.0])
    stopped = tune(space, "--store-out", "ship/winners.json", evaluator=Stopped())
    assert stopped.exit_code == 4
    (folder,) = (tmp_path / "runs").iterdir()
    assert f"go on with: egg-graph optimize --resume {folder.name}" in stopped.stderr
    request = json.loads((folder / "run.json").read_text())
    assert request["context"]["memory"] is False, "a sweep is told nothing"
    monkeypatch.setattr(egg_graph, "resume", functools.partial(egg_graph.resume, evaluator=OnGpu(), principles=()))
    result = CliRunner().invoke(app, [command, "--resume", folder.name])
    assert result.exit_code == 0, result.output
    assert "tuned: 3 ms -> 2 ms" in result.output and "fastest" in result.output
    assert "'NUMBER': 2.0" in (folder / "tunable.py").read_text()
    (winner,) = read_store(tmp_path / "ship" / "winners.json")
    assert winner.config == {"NUMBER": 2.0}
    store = tmp_path / "data" / "egg-graph" / "winners.json"
    store.unlink()
    again = CliRunner().invoke(app, [command, "--resume", folder.name])
    assert again.exit_code == 0 and "tuned: 3 ms -> 2 ms" in again.output
    assert not store.exists(), "a run that is only read again overwrites no later winner"


def test_a_resumed_sweep_says_the_same_without_a_clock(tune, tmp_path, monkeypatch):
    class Stopped(ScriptedEvaluator):
        def screen(self, task, candidates):
            raise AnswerPending("no answer yet")

    tune(tunable("ok", 9.0, STAGE, [9.0, 7.0]), evaluator=Stopped())
    (folder,) = (tmp_path / "runs").iterdir()
    evaluator = ScriptedEvaluator()
    monkeypatch.setattr(egg_graph, "resume", functools.partial(egg_graph.resume, evaluator=evaluator, principles=()))
    result = CliRunner().invoke(app, ["optimize", "--resume", folder.name])
    assert "1 other configuration tried; nothing is timed here: none is chosen" in result.output
    assert "> best" not in (folder / "report.html").read_text().replace("</span>", ">")


def test_only_a_tune_is_resumed_by_tune(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "a").mkdir(parents=True)
    (tmp_path / "runs" / "a" / "run.json").write_text("{}")
    result = CliRunner().invoke(app, ["tune", "--resume", "a"])
    assert result.exit_code == 2 and "go on with egg-graph optimize --resume a" in result.stderr


def test_rows_can_be_told_apart_on_a_narrow_terminal(tune, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    knobs = {f"KNOB_NUMBER_{number}": 1 for number in range(4)}
    space = {"tensor_tiling": {knob: [2] for knob in knobs}}
    reads = "".join(f'print(CONFIG["{knob}"])\n' for knob in [*knobs, "NUMBER"])
    text = kernel("timed", 3.0, f"CONFIG = {knobs | {'NUMBER': 3.0}}\nSPACE = {space}\n{reads}")
    result = tune(text, "--max-configs", "3", evaluator=OnGpu())
    table = "".join(result.output.partition("the kernel's own first")[2].split())
    assert "…" not in table and table.count("KNOB_NUMBER_3=") == 3
    assert "occ." in table and "occupancy" not in table


def test_a_damaged_store_is_told_before_anything_is_done(tune, tmp_path):
    (tmp_path / "data" / "egg-graph").mkdir(parents=True)
    (tmp_path / "data" / "egg-graph" / "winners.json").write_text("{")
    result = tune(tunable("timed", 3.0, STAGE, [3.0, 2.0]), evaluator=OnGpu())
    assert result.exit_code == 2 and "mend it or remove it" in result.stderr
    assert not (tmp_path / "runs").exists()


def test_a_kernel_that_is_wrong_is_neither_swept_nor_repaired(tune, tmp_path):
    evaluator = OnGpu()
    result = tune(tunable("bad", 3.0, STAGE, [3.0, 2.0]), evaluator=evaluator)
    assert result.exit_code == 1
    assert "nothing was swept: the kernel was judged incorrect: " in result.output and len(evaluator.evaluated) == 1
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("writes", "words", "said"),
    [
        ([kernel("timed", 2.0)], [], "the kernel that was judged has no SPACE that leaves a choice"),
        ([kernel("bad")], [], "kernels is right; the last was judged incorrect: bad kernel"),
        ([kernel("timed", 2.0)], ["--max-seconds", "0.000001"], "the run ended before it: max_seconds (1e-06) reached"),
    ],
)
def test_why_nothing_was_swept_is_told(tune, monkeypatch, writes, words, said):
    monkeypatch.setattr("egg_graph.runs.optimize.resolve_team", lambda model: ScriptedTeam(writes))
    monkeypatch.setattr(egg_graph, "tune", functools.partial(egg_graph.tune, evaluator=OnGpu(), principles=()))
    result = CliRunner().invoke(app, ["tune", "relu.py", "--target", "h200", *words])
    assert "nothing was swept: " in result.output and said in result.output


def test_where_the_expert_has_no_kernel_one_may_be_given(tune, monkeypatch):
    class Declines(ScriptedTeam):
        def write(self, brief):
            return Draft(declined="no playbook matches")

    monkeypatch.setattr("egg_graph.runs.optimize.resolve_team", lambda model: Declines([""]))
    monkeypatch.setattr(egg_graph, "tune", functools.partial(egg_graph.tune, evaluator=OnGpu(), principles=()))
    result = CliRunner().invoke(app, ["tune", "relu.py", "--target", "h200"])
    assert result.exit_code == 1
    assert "nothing was swept: the embedded expert writes no kernel for this reference: give one with --kernel" in (
        result.output
    )


def test_a_replay_tries_what_the_run_tried_whatever_the_store_holds_now(tune, tmp_path, h200):
    text = tunable("timed", 9.0, STAGE, [9.0, 2.0])
    tune(text, evaluator=OnGpu())
    task = KernelTask(name="relu", reference=REFERENCE, target=h200)
    candidate = Candidate(source=text, author="user", stage="algorithmic_structure", mode="seed")
    baseline = OnGpu().baseline(task)
    recorded = RecordedEvaluator(OnGpu, tmp_path)
    assert ReplayEvaluator(tmp_path).winner_before(task, baseline, candidate) is None
    assert recorded.winner_before(task, baseline, candidate) == {"NUMBER": 2.0}
    (tmp_path / "data" / "egg-graph" / "winners.json").unlink()
    assert recorded.winner_before(task, baseline, candidate) is None
    assert ReplayEvaluator(tmp_path).winner_before(task, baseline, candidate) == {"NUMBER": 2.0}
    assert RecordedEvaluator(lambda: ReplayEvaluator(tmp_path), tmp_path / "again").winner_before(
        task, baseline, candidate
    ) == {"NUMBER": 2.0}, "a replay asks what the run kept, and no store"

"""The command as a user meets it: help, exit statuses, one-line errors, and what a run shows and leaves."""

import functools
import io
import json
import subprocess
import sys

import pytest
from rich.console import Console
from typer.testing import CliRunner

import egg_graph
from egg_graph.cli import app
from egg_graph.cli.progress import Progress
from egg_graph.evaluator.judge import compile_cache
from egg_graph.schema import InfrastructureError, ModelRefused
from egg_graph.schema.ledger import is_ledger_line
from tests.graph.scripted import REFERENCE, ScriptedEvaluator, ScriptedTeam, kernel, tunable
from tests.paths import ROOT


@pytest.fixture
def reference(tmp_path):
    path = tmp_path / "relu.py"
    path.write_text(REFERENCE)
    return path


@pytest.fixture
def egg(tmp_path, monkeypatch):
    """Run the command in a folder of its own, on a terminal wide enough for whole lines."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("EGG_MODEL", raising=False)
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


def scripted(monkeypatch, *writes, **evaluator):
    parts = {"team": ScriptedTeam(writes, worth=(False,)), "evaluator": ScriptedEvaluator(**evaluator)}
    monkeypatch.setattr(egg_graph, "optimize", functools.partial(egg_graph.optimize, **parts))


COMMANDS = (
    "optimize",
    "tune",
    "evaluate",
    "report",
    "bench",
    "mcp",
    "serve",
    "spool",
    "doctor",
    "hardware",
    "principles",
    "graph",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(egg, command):
    result = egg(command, "--help")
    assert result.exit_code == 0
    assert command in egg("--help").output
    assert command != "optimize" or "[s]" in result.output, "a unit in a knob's description was taken for markup"


@pytest.mark.parametrize(
    ("words", "everywhere", "expected"),
    [
        (["openai:one"], "", "openai:one"),
        (["openai:one", "coder=anthropic:two"], "", ["openai:one", "anthropic:two", "openai:one"]),
        (["coder=b", "analyst=a", "debugger=c"], "", ["a", "b", "c"]),
        (["coder=openai:two"], "openai:one", ["openai:one", "openai:two", "openai:one"]),
        (["openai:three"], "openai:one, coder=openai:two", ["openai:three", "openai:two", "openai:three"]),
        ([], "openai:one", "openai:one"),
        ([], "", None),
    ],
)
def test_each_role_may_be_given_a_model(egg, reference, monkeypatch, words, everywhere, expected):
    given = []

    def stop(*_, model, **__):
        given.append(model)
        raise InfrastructureError("far enough")

    monkeypatch.setattr(egg_graph, "optimize", stop)
    monkeypatch.setenv("EGG_MODEL", everywhere)
    egg("optimize", reference, *(part for word in words for part in ("--model", word)))
    roles = dict(zip(("analyst", "coder", "debugger"), expected, strict=True)) if type(expected) is list else expected
    assert given == [roles]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["coder=openai:x"], "no model for the analyst: add analyst=NAME, or a NAME for all other roles"),
        (["judge=openai:x"], "no role 'judge'; the roles are analyst, coder, debugger"),
        (["coder="], "the name is empty; write for example coder=openai:gpt-5"),
        (["a", "b"], "the team has the model 'a' already"),
        (["anthropic:claude", "coder=openai:x"], "ANTHROPIC_API_KEY is not set"),
        (["groq:llama"], "pip install langchain-groq"),
    ],
)
def test_a_model_that_cannot_play_is_refused_in_one_line_before_anything_runs(
    egg, reference, monkeypatch, tmp_path, words, said
):
    for variable in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    result = egg("optimize", reference, *(part for word in words for part in ("--model", word)))
    assert result.exit_code == 2
    assert said in result.stderr and len(result.stderr.splitlines()) == 1
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--width", "0"], "width"), (["--target", "h2000"], "h2000"), (["--max-calls", "-1"], "max_calls")],
)
def test_a_wrong_value_is_refused_before_anything_is_announced(egg, reference, words, said):
    result = egg("optimize", reference, *words)
    assert result.exit_code == 2 and said in result.stderr
    assert not result.stdout


def test_the_last_line_on_a_terminal_says_who_works_at_what():
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=120)
    with Progress(console) as progress:
        progress({"event": "started", "node": "baseline"})
        progress({"event": "working", "node": "baseline", "doing": "times the reference", "seconds": 12.2})
        assert progress.working == "the reference is run, and measured if there is a GPU: times the reference, 12 s"
        coder = {"node": "coder", "stage": "tensor_tiling", "attempt": 3, "mode": "repair"}
        progress({"event": "started", **coder})
        assert progress.working == "attempt 3 (repair): the coder writes"
        tuner = {"node": "tuner", "stage": "tensor_tiling", "attempt": 4, "mode": "tune"}
        progress({"event": "started", **tuner, "number": 2, "of": 12, "config": {"B": 64}, "doing": "compiles"})
        assert progress.working == "attempt 4 (tune): the tuner sweeps: configuration 2 of 12: compiles"
        progress({"event": "working", **tuner, "doing": "", "seconds": 4.0})
        assert progress.working == "attempt 4 (tune): the tuner sweeps: configuration 2 of 12, 4 s"
    assert "configuration 2 of 12, 4 s" in written.getvalue(), "the line was not shown"


@pytest.mark.parametrize("terminal", [False, True])
def test_without_a_terminal_each_wait_is_a_line(terminal):
    console = Console(file=io.StringIO(), width=60, force_terminal=terminal)
    progress = Progress(console)
    wait = "waits for http://127.0.0.1:8642: ConnectError: All connection attempts failed"
    for doing in ("compiles", wait, wait, "times", wait):
        progress({"event": "working", "node": "evaluator", "doing": doing, "seconds": 3.0})
    assert console.file.getvalue() == ("" if terminal else f"{wait}\n{wait}\n")


@pytest.mark.parametrize("terminal", [False, True])
def test_why_a_model_is_asked_again_stays_on_the_screen(terminal):
    console = Console(file=io.StringIO(), width=120, force_terminal=terminal)
    progress = Progress(console)
    why = "the answer cannot be used, so the coder is asked again: no code block holds a ModelNew"
    for doing in ("waits for 001-coder.answer.md", why, "waits for 002-coder.answer.md"):
        progress({"event": "working", "node": "coder", "doing": doing, "seconds": 3.0})
    assert console.file.getvalue().count(why) == 1


@pytest.mark.parametrize(("eager_ms", "why"), [(None, "; nothing is timed here: lower bounds"), (1.0, "")])
def test_a_sweep_that_leads_to_no_attempt_says_so(eager_ms, why):
    console = Console(file=io.StringIO(), width=200)
    progress = Progress(console)
    progress({"event": "baseline", "status": "ok", "eager_ms": eager_ms})
    progress({"event": "stage", "stage": "tensor_tiling", "status": "opened"})
    progress(
        {"event": "sweep", "stage": "tensor_tiling", "status": "cut", "reason": "B 256 left out: max_configs is 2"}
    )
    for block in (64, 128):
        trial = {"event": "trial", "stage": "tensor_tiling", "config": {"B": block}, "status": "correct"}
        progress({**trial, "milliseconds": eager_ms})
    progress({"event": "stage", "stage": "tensor_tiling", "status": "kept"})
    told = f"1 other configuration tried, none better than the current one; B 256 left out: max_configs is 2{why}"
    assert told in console.file.getvalue()
    assert ("nothing is timed here: lower" in console.file.getvalue()) == bool(why)


def test_optimize_shows_each_step_and_leaves_everything(egg, reference, monkeypatch, tmp_path):
    scripted(monkeypatch, kernel("bad"), tunable("timed", 3, "tensor_tiling", [3, 2]))
    result = egg("optimize", reference)
    assert result.exit_code == 0, result.output
    for shown in (
        "algorithmic structure",
        "tensor tiling",
        "incorrect",
        "bad kernel",
        "faster",
        "error 1.0e-07 of 1.0e-05",
        "3 ms (1.33x)",
        "2 ms (2.00x)",
        "best so far",
        "of 2 configurations",
        "proven",
        "the script says so",
        "7 model calls, 105 tokens",
    ):
        assert shown in result.output, shown
    (folder,) = (tmp_path / "runs").iterdir()
    assert {"kernel.py", "evidence.json", "history.jsonl", "report.html"} <= {path.name for path in folder.iterdir()}
    assert folder.name in result.output


def test_optimize_takes_a_kernel_and_a_plan(egg, reference, monkeypatch, tmp_path):
    scripted(monkeypatch, kernel("ok", 8))
    (tmp_path / "mine.py").write_text(kernel("ok", 9))
    words = ("--kernel", "mine.py", "--plan", "halve the tile", "--max-optimizations", 1)
    result = egg("optimize", reference, *words, "--stage", "algorithmic_structure")
    assert result.exit_code == 0, result.output
    assert "halve the tile" in result.output and "2 attempts" in result.output
    assert result.output.count("yours") == 1
    (history,) = tmp_path.glob("runs/*/history.jsonl")
    lines = [json.loads(line) for line in history.read_text().splitlines()]
    assert [a["candidate"]["author"] for a in lines if not is_ledger_line(a)] == ["user", "scripted"]


def test_a_budget_that_ended_a_run_is_told_with_the_command_that_goes_on(egg, reference, monkeypatch, tmp_path):
    scripted(monkeypatch, kernel("timed", 2.0))
    result = egg("optimize", reference, "--max-calls", 2)
    (folder,) = (tmp_path / "runs").iterdir()
    go_on = f"egg-graph optimize --resume {folder.name} --max-calls N"
    assert f"stopped early: max_calls (2) reached; go on with: {go_on}\nkernel    " in result.output
    resumed = egg("optimize", "--resume", folder.name)
    assert f"the run runs/{folder.name} goes on" in resumed.output
    assert "budget    max_attempts 24, max_calls 2, max_" in resumed.output


def test_a_kept_reference_exits_1_and_says_why(egg, reference, monkeypatch):
    scripted(monkeypatch, kernel("bad"))
    result = egg("optimize", reference, "--max-attempts", 2)
    assert result.exit_code == 1
    assert "The reference is kept" in result.output
    assert "kernel.py" not in result.output


def test_a_finished_run_is_told_again_and_its_page_written_again(egg, reference, monkeypatch, tmp_path):
    scripted(monkeypatch, kernel("timed", 2.0))
    egg("optimize", reference)
    (folder,) = (tmp_path / "runs").iterdir()
    (folder / "report.html").unlink()
    assert egg("report", folder).exit_code == 0
    assert (folder / "report.html").exists()


def one_line(result):
    lines = [line for line in result.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, result.stderr
    assert "Traceback" not in result.output
    return lines[0]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["optimize"], "name the reference's .py file"),
        (["optimize", "nowhere.py"], "nowhere.py: no such file"),
        (["optimize", "."], "is a folder"),
        (["optimize", "syn.py"], "the reference syn.py is no Python: line 2: invalid syntax: x = = 3"),
        (["optimize", "relu.py", "--target", "h9000"], "unknown; choose one of"),
        (["optimize", "relu.py", "--max-attempts", "0"], "max_attempts"),
        (["optimize", "relu.py", "--stage", "cooking"], "stages"),
        (["optimize", "relu.py", "--resume", "x"], "give it alone"),
        (["optimize", "--resume", "x", "--plan", "y"], "give it alone"),
        (["optimize", "relu.py", "--kernel", "nowhere.py"], "nowhere.py: no such file; name the kernel's"),
        (["optimize", "relu.py", "--kernel", "empty.py"], "the file empty.py is empty; it should hold the kernel"),
        (["optimize", "--resume", "nothing"], "no run 'nothing'"),
        (["optimize", "relu.py", "--plan", " "], "--plan is empty: say what to change first"),
        (["spool", "nowhere"], "nowhere: no such folder; name the one of --evaluator spool:FOLDER"),
        (["replay", "nowhere"], "nowhere: no such file or folder; name a record, or a run's folder"),
        (["evaluate", "relu.py", "nowhere.py"], "nowhere.py: no such file"),
        (["evaluate", "nowhere.py", "relu.py"], "nowhere.py: no such file"),
        (["evaluate", "latin.py", "relu.py"], "not UTF-8 at byte"),
        (["report", "nowhere"], "is no run's folder"),
        (["bench", "nowhere"], "no such folder or file"),
        (["bench", ".", "--only", "zzz"], "no reference named 'zzz'"),
        (["bench", "kernelbench"], "give --path, a checkout of KernelBench"),
        (["bench", "relu.py", "--levels", "1"], "belong to the suite kernelbench"),
        (["bench", "relu.py", "--without", "luck"], "no knob leaves out 'luck'; choose among tuner"),
        (["hardware", "h9000"], "unknown; choose one of"),
        (["principles", "--stage", "cooking"], "no stage 'cooking'"),
        (["principles", "--knowledge", "nowhere"], "no such folder"),
        (["graph", "--write", "nowhere.md"], "no such file"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(egg, reference, tmp_path, words, says):
    (tmp_path / "latin.py").write_bytes("# \xe9".encode("latin-1"))
    (tmp_path / "empty.py").touch()
    (tmp_path / "syn.py").write_text("import torch\nx = = 3\n")
    result = egg(*words)
    assert result.exit_code == 2, result.output
    assert says in one_line(result)
    assert not (tmp_path / "nowhere").exists()


def test_a_selection_of_the_runs_that_there_are_says_so(egg, tmp_path):
    for number in range(7):
        (tmp_path / "runs" / f"run{number}").mkdir(parents=True)
        (tmp_path / "runs" / f"run{number}" / "run.json").write_text("{}")
    told = one_line(egg("optimize", "--resume", "nothing"))
    assert "there are 7, the latest run2, run3, run4, run5, run6" in told
    assert "runs: holds 7 runs; name one of them, such as runs/run6" in one_line(egg("replay", "runs"))


def test_without_a_terminal_the_start_and_long_silence_are_told():
    console = Console(file=io.StringIO(), width=200)
    with Progress(console, quiet=0.0) as progress:
        assert console.file.getvalue() == "starts the judge\n"
        progress({"event": "working", "node": "baseline", "doing": "compiles", "seconds": 31.0})
    assert console.file.getvalue().splitlines()[1:] == [
        "the reference is run, and measured if there is a GPU: compiles, 31 s"
    ]
    with Progress(Console(file=io.StringIO(), width=200)) as progress:
        progress({"event": "working", "node": "baseline", "doing": "compiles", "seconds": 31.0})
        assert progress.console.file.getvalue() == "starts the judge\n", "it was not silent for long"


def test_bad_usage_exits_2(egg):
    assert egg("optimize", "x.py", "--precision", "fp8").exit_code == 2
    assert egg("cook").exit_code == 2


@pytest.mark.parametrize(
    ("error", "status"), [(ModelRefused("HTTP 400: no such model"), 2), (InfrastructureError("the GPU fell off"), 3)]
)
def test_refusals_and_broken_machines_are_one_line_too(egg, reference, monkeypatch, error, status):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(egg_graph, "optimize", fail)
    result = egg("optimize", reference)
    assert result.exit_code == status
    assert str(error) in one_line(result)


def test_text_of_models_cannot_steer_the_terminal(egg, reference, monkeypatch):
    scripted(monkeypatch, kernel("timed", 2.0), unevaluable="\x1b[2Jnot [bold]fit[/bold]\x07\nfor use")
    result = egg("optimize", reference)
    assert result.exit_code == 1
    assert "\x1b" not in result.output and "\x07" not in result.output
    assert "not [bold]fit[/bold] for use" in result.output


def test_hardware_shows_every_figure_with_its_source(egg):
    assert "h200" in egg("hardware").output
    shown = egg("hardware", "h200").output
    assert "dram_bandwidth" in shown and "datasheet" in shown


def test_principles_of_one_stage(egg):
    every, one = egg("principles").output, egg("principles", "--stage", "tensor_tiling").output
    assert 0 < len(one) < len(every)
    assert "when" in one and "changes" in one


def test_a_bench_keeps_its_whole_command_and_its_suite_apart_from_the_selection(egg, reference, monkeypatch, tmp_path):
    given = []

    def stop(*_, suite, command, **__):
        given.append((suite, command))
        raise InfrastructureError("far enough")

    words = ["bench", "./", "--only", "re*", "--out", "my results", "--without", "tuner"]
    monkeypatch.setattr("egg_graph.bench.run_bench", stop)
    monkeypatch.setattr(sys, "argv", ["/somewhere/egg-graph", *words])
    assert egg(*words).exit_code == 3
    assert given == [(".", "egg-graph bench ./ --only 're*' --out 'my results' --without tuner")]


def test_graph_prints_and_redraws(egg, tmp_path):
    diagram = egg("graph").output
    assert "hardware_tuning" in diagram and "graph TD" in diagram
    assert "debugger" not in diagram and "debugger" in egg("graph", "--unfold").output
    page = tmp_path / "page.md"
    page.write_text("before\n```mermaid\nold\n```\nafter\n```mermaid\nkept\n```\n")
    assert "redrawn" in egg("graph", "--write", page).output
    text = page.read_text()
    assert text.startswith("before\n```mermaid\n---") and "old" not in text and text.endswith("mermaid\nkept\n```\n")
    assert "unchanged" in egg("graph", "--write", page).output
    page.write_text("no block")
    assert egg("graph", "--write", page).exit_code == 2


def test_doctor_finds_and_cures_without_telling_secrets(egg, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://user:hidden@host")
    result = egg("doctor", "--json")
    assert result.exit_code == 0
    told = json.loads(result.output)
    assert {"Python", "PyTorch", "Triton", "GPU", "C compiler", "memory", "disk"} <= {i["name"] for i in told["items"]}
    assert all(item["cure"] and item["consequence"] for item in told["items"] if item["state"] != "ok")
    assert "A chat model can play the team" in told["prospects"][1]
    table = egg("doctor").output
    assert "secret" not in result.output + table and "hidden" not in result.output + table


def test_doctor_tells_where_pytorch_is_compiled_anew_by_each_python(egg, monkeypatch):
    monkeypatch.setattr(compile_cache, "lacks_compiled_modules", lambda: True)
    told = json.loads(egg("doctor", "--json").output)["items"]
    (modules,) = [item for item in told if item["name"] == "compiled modules"]
    assert modules["state"] == "optional" and "compileall" in modules["cure"]


@pytest.mark.parametrize("words", [["--help"], ["evaluate", "--help"], ["evaluate", "nowhere.py", "nowhere.py"]])
def test_evaluating_needs_no_langgraph(words):
    """The command to judge a candidate must run on a host that has neither LangGraph nor LangChain."""
    code = (
        "import sys\n"
        "class Gone:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in ('langgraph', 'langchain_core', 'langchain_openai', 'openai'):\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Gone())\n"
        f"sys.argv = ['egg-graph', *{words!r}]\n"
        "from egg_graph.cli import app\n"
        "app()\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == (0 if "--help" in words else 2), result.stderr
    assert "ModuleNotFoundError" not in result.stderr


def test_a_run_that_stops_says_how_to_go_on_and_does(egg, reference, monkeypatch, tmp_path):
    whole = egg_graph.optimize
    scripted(monkeypatch, kernel("timed", 2.0), faults=99)
    result = egg("optimize", reference)
    assert result.exit_code == 3
    (folder,) = (tmp_path / "runs").iterdir()
    assert f"egg-graph optimize --resume {folder.name}" in result.stderr
    monkeypatch.setattr(egg_graph, "optimize", whole)
    parts = {"team": ScriptedTeam([kernel("timed", 2.0)], worth=(False,)), "evaluator": ScriptedEvaluator()}
    monkeypatch.setattr(egg_graph, "resume", functools.partial(egg_graph.resume, **parts))
    resumed = egg("optimize", "--resume", folder.name)
    assert resumed.exit_code == 0, resumed.output
    assert (folder / "kernel.py").exists()


def test_mcp_without_its_sdk_says_how_to_get_it(egg, monkeypatch):
    monkeypatch.setitem(sys.modules, "mcp", None)
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    for name in [name for name in sys.modules if name.startswith("egg_graph.mcp")]:
        monkeypatch.delitem(sys.modules, name)
    result = egg("mcp")
    assert result.exit_code == 2 and "pip install 'egg-graph[mcp]'" in one_line(result)


def test_the_judge_of_a_run_starts_before_langgraph_is_imported(tmp_path):
    """It imports PyTorch for seconds, and need not wait for what this process imports."""
    code = (
        "import sys\n"
        "from egg_graph.evaluator.local import LocalEvaluator\n"
        "def start(self):\n"
        "    print(self._settings['device'], 'langgraph' in sys.modules)\n"
        "    sys.exit(7)\n"
        "LocalEvaluator.start = start\n"
        "from egg_graph.cli import app\n"
        f"app(['optimize', {str(ROOT / 'examples' / 'cross_entropy.py')!r}, '--device', 'none', '--no-memory'])\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (result.returncode, result.stdout.split()) == (7, ["none", "False"]), result.stderr

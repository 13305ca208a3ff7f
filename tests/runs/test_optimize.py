"""`optimize`: one call, one folder."""

import asyncio
import functools
import json

import pytest

from egg_graph import BadInput, InfrastructureError, ModelRefused, optimize, resume
from egg_graph.runs.checkpoints import make_checkpoints
from egg_graph.runs.files import write_whole
from egg_graph.schema import Attempt, Evaluation
from egg_graph.schema.ledger import is_ledger_line
from tests.graph.scripted import REFERENCE, ScriptedEvaluator, ScriptedTeam, kernel, tunable

SCRIPT = (kernel("bad"), kernel("ok", 3))


def go(tmp_path, script=SCRIPT, evaluator=None, **options):
    options = {"target": "h100", "runs_dir": tmp_path / "runs", "principles": ()} | options
    team = ScriptedTeam(script, worth=[False])
    return optimize(REFERENCE, team=team, evaluator=evaluator or ScriptedEvaluator(), **options)


def test_the_folder_holds_kernel_evidence_history_and_report(tmp_path):
    run = go(tmp_path, [kernel("bad"), tunable("timed", 3, "tensor_tiling", [3, 2])], name="relu")
    assert run.accepted and run.status == "faster" and run.kernel == "# timed 3\nprint(2)\n"
    assert run.kernel_path.read_text() == run.kernel and run.folder == tmp_path / "runs" / run.id
    evidence = json.loads((run.folder / "evidence.json").read_text())
    assert evidence["status"] == "faster" and evidence["verdict"] == run.verdict and evidence["attempts"] == 3
    assert Evaluation.model_validate(evidence["evaluation"]) == run.evaluation
    history = (run.folder / "history.jsonl").read_text().splitlines()
    attempts = [line for line in history if not is_ledger_line(json.loads(line))]
    assert tuple(Attempt.model_validate_json(line) for line in attempts) == run.attempts
    assert "<html" in (run.folder / "report.html").read_text()
    assert run.id.split("-")[2] == "relu" and not list(run.folder.glob("*.tmp"))


def test_events_tell_the_run_as_it_goes(tmp_path):
    events = []
    go(tmp_path, on_event=events.append, max_optimizations=1)
    told = [e["event"] for e in events if e["event"] not in ("started", "working", "ledger")]
    assert told[:6] == ["baseline", "stage", "role", "attempt", "role", "role"]
    assert events[-1]["event"] == "verdict" and events[-1]["status"] == "correct"
    attempts = [e for e in events if e["event"] == "attempt"]
    assert [(e["attempt"], e["mode"], e["status"], e["improved"]) for e in attempts] == [
        (1, "seed", "incorrect", False),
        (2, "repair", "correct", True),
    ]
    assert attempts[1]["error"] == 1e-7 and attempts[1]["budget"] == 1e-5 and attempts[1]["bound_ms"] == 3.0
    assert [e["status"] for e in events if e["event"] == "stage"][:2] == ["opened", "improved"]
    json.dumps(events)


def test_without_a_kernel_there_is_no_kernel_file(tmp_path):
    run = go(tmp_path, [kernel("bad", n) for n in range(9)])
    assert (run.status, run.kernel, run.kernel_path, run.accepted) == ("reference_kept", None, None, False)
    assert not (run.folder / "kernel.py").exists() and (run.folder / "evidence.json").exists()


def test_a_run_that_the_machine_ended_is_resumed(tmp_path, monkeypatch):
    monkeypatch.setattr("asyncio.sleep", functools.partial(asyncio.sleep, 0))
    with pytest.raises(InfrastructureError):
        go(tmp_path, [kernel("ok", 2)], evaluator=ScriptedEvaluator(faults=99))
    (folder,) = (tmp_path / "runs").iterdir()
    assert not (folder / "evidence.json").exists()
    parts = {"team": ScriptedTeam([kernel("ok", 2)], [False]), "evaluator": ScriptedEvaluator(), "principles": ()}
    run = resume(folder.name, runs_dir=tmp_path / "runs", **parts)
    assert run.status == "correct" and run.id == folder.name
    assert parts["team"].calls() == ["analyst"] * 4, "the seed was written before"


def test_a_finished_run_is_read_again_without_work(tmp_path):
    first = go(tmp_path)
    (first.folder / "report.html").unlink()
    evaluator = ScriptedEvaluator()
    again = resume(first.id, runs_dir=tmp_path / "runs", team=ScriptedTeam([""]), evaluator=evaluator)
    assert again == first and evaluator.evaluated == [] and (first.folder / "report.html").exists()


def test_a_kernel_and_a_plan_are_handed_in_and_kept_for_a_resume(tmp_path, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    mine = tmp_path / "mine.py"
    mine.write_text(kernel("ok", 9))
    options = {"kernel": mine, "plan": "halve the tile", "max_optimizations": 1, "stages": ("algorithmic_structure",)}
    with pytest.raises(InfrastructureError):
        go(tmp_path, [kernel("ok", 8)], evaluator=ScriptedEvaluator(faults=99), **options)
    (folder,) = (tmp_path / "runs").iterdir()
    mine.unlink()
    (folder / "checkpoints.sqlite").unlink()
    make_checkpoints(folder)
    parts = {"team": ScriptedTeam([kernel("ok", 8)], [False]), "evaluator": ScriptedEvaluator(), "principles": ()}
    run = resume(folder.name, runs_dir=tmp_path / "runs", **parts)
    first, second = run.attempts
    assert (first.candidate.source, first.candidate.author) == (kernel("ok", 9), "user")
    assert second.candidate.plan == "halve the tile" and parts["team"].calls() == ["coder"]


@pytest.mark.parametrize(
    ("options", "says"),
    [({"kernel": "nowhere.py"}, "cannot read the kernel nowhere.py"), ({"plan": 7}, "input key 'plan' is 7")],
)
def test_what_cannot_be_handed_in_is_refused_before_anything_is_made(tmp_path, options, says):
    with pytest.raises(BadInput, match=says):
        go(tmp_path, **options)
    assert not (tmp_path / "runs").exists()


def test_a_plan_for_the_embedded_expert_is_refused_before_anything_is_made(tmp_path):
    with pytest.raises(BadInput, match=r"the embedded expert follows no plan: give --model .*, or leave out --plan"):
        optimize(
            REFERENCE, plan="halve the tile", evaluator=ScriptedEvaluator(), target="h100", runs_dir=tmp_path / "a"
        )
    assert not (tmp_path / "a").exists()


def test_a_path_names_the_task(tmp_path):
    path = tmp_path / "my_relu.py"
    path.write_text(REFERENCE)
    run = optimize(
        path,
        team=ScriptedTeam([kernel("ok")], [False]),
        evaluator=ScriptedEvaluator(),
        principles=(),
        runs_dir=tmp_path,
        target="h100",
    )
    assert run.state["task"].name == "my_relu" and run.state["task"].reference == REFERENCE


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"precision": "fp8"}, "precision must be .*, not 'fp8'"),
        ({"max_atempts": 3}, "no knob 'max_atempts'; the knobs are precision, domain, target"),
        ({"stages": ("tiling",)}, "stages must be .*tensor_tiling.*, not 'tiling'"),
        ({"max_seconds": 0}, "max_seconds must be greater than 0, not 0"),
        ({"target": "voodoo5"}, "hardware 'voodoo5'"),
        ({"model": 7}, "model=7: pass a chat model"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_made(tmp_path, options, message):
    with pytest.raises(BadInput, match=message):
        go(tmp_path, **options)
    assert not (tmp_path / "runs").exists()


class Refusing(ScriptedEvaluator):
    def baseline(self, task):
        raise BadInput("reference: it defines no class `Model(torch.nn.Module)`")


def test_a_run_refused_before_its_first_attempt_leaves_no_folder(tmp_path):
    with pytest.raises(BadInput, match="no class"):
        go(tmp_path, evaluator=Refusing())
    assert not list((tmp_path / "runs").iterdir())


class RefusedRepair(ScriptedTeam):
    def debug(self, brief):
        raise ModelRefused("HTTP 400")


def test_a_run_refused_after_an_attempt_keeps_its_folder(tmp_path):
    options = {"target": "h100", "runs_dir": tmp_path / "runs", "principles": ()}
    with pytest.raises(ModelRefused):
        optimize(REFERENCE, team=RefusedRepair(SCRIPT, worth=[False]), evaluator=ScriptedEvaluator(), **options)
    assert len(list((tmp_path / "runs").glob("*/run.json"))) == 1


def test_a_model_out_of_reach_is_refused_before_the_baseline(tmp_path, monkeypatch):
    for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(BadInput, match="OPENAI_API_KEY"):
        optimize(REFERENCE, model="openai:gpt-5", evaluator=Refusing(), runs_dir=tmp_path / "runs", target="h100")
    assert not (tmp_path / "runs").exists()


def test_insisting_on_a_gpu_without_one_is_refused_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr("egg_graph.evaluator.device.detect.gpu_present", lambda: False)
    monkeypatch.setattr("egg_graph.evaluator.gpu_present", lambda: False, raising=False)
    with pytest.raises(BadInput, match="--device none"):
        optimize(REFERENCE, team=ScriptedTeam(SCRIPT), runs_dir=tmp_path / "runs", target="h100", device="gpu")
    assert not (tmp_path / "runs").exists()


def test_resuming_needs_a_run_that_exists(tmp_path):
    go(tmp_path)
    with pytest.raises(BadInput, match=r"no run 'nope' in .*: there are "):
        resume("nope", runs_dir=tmp_path / "runs")
    with pytest.raises(BadInput, match="no knob 'resume'"):
        optimize(REFERENCE, resume="nope", runs_dir=tmp_path / "runs")


def test_resuming_needs_the_same_team_again(tmp_path):
    run = go(tmp_path)
    with pytest.raises(BadInput, match="pass the same one again"):
        resume(run.id, runs_dir=tmp_path / "runs")


def test_files_are_whole_or_not_at_all(tmp_path):
    path = tmp_path / "kernel.py"
    write_whole(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_whole(path, "new \ud800")
    assert path.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["kernel.py"]

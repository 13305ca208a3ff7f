"""Runs with a model in lockstep: prompts answered through files, evaluations on a host that nobody reaches."""

import asyncio
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from egg_graph.evaluator.pool import Pool
from egg_graph.schema import BadInput, Metric, Profile
from tests.agents.answers import MODULE, fenced
from tests.evaluator.remote import host
from tests.graph.scripted import REFERENCE, tunable
from tests.lab.commands import lab
from tests.lab.model_runs import BEGUN, ModelRuns, PlannedRun, begin_model_runs, leave_out
from tests.lab.model_runs_ahead import judge_ahead, pack, take_answers
from tests.lab.model_runs_course import parts_section, parts_so_far
from tests.lab.model_runs_page import model_runs_page
from tests.lab.model_runs_table import read_model_runs
from tests.lab.model_runs_without import parts_left_out
from tests.lab.model_seeds import read_seeds
from tests.sample import thorough

NO = {"worth_optimizing": False, "bottleneck": "none", "root_cause": "at the roof", "category": "none", "plan": ""}
KNOBS = {"target": "h200", "expert_seed": False, "stages": ["algorithmic_structure", "tensor_tiling"]}


class ProfilingJudge(host.ScriptedHost):
    """A scripted judge that measures a metric of every kernel."""

    def profile(self, task, candidate, evaluation, *, stage=None):
        self._write(f"profile {candidate.id} {stage}")
        return Profile(source="ncu", metrics={"launch__registers_per_thread": Metric(value=77.0, unit="")})


@dataclass
class ScriptedHost:
    """A host whose judges follow a script."""

    log: Path
    name: str = "host"

    def make_pool(self):
        return Pool([lambda: ProfilingJudge(log=self.log)] * 2)


@pytest.fixture
def problems(tmp_path):
    paths = [tmp_path / "problems" / f"{name}.py" for name in ("relu", "again")]
    for number, path in enumerate(paths):
        path.parent.mkdir(exist_ok=True)
        path.write_text(REFERENCE.replace("16, 16", f"16, {16 + number}"))
    return paths


def source(word: str, milliseconds: int) -> str:
    """A module that the scripted judges take for `word`, with a knob that the stage of tiles may turn."""
    knobs = tunable(word, milliseconds, "tensor_tiling", [milliseconds, milliseconds - 1]).partition("print")[0]
    return knobs + MODULE.replace("BLOCK=256", 'BLOCK=CONFIG["NUMBER"]')


def trip(runs: ModelRuns, tmp_path: Path) -> int:
    """Carry the questions to the host and the answers back; return how many there were."""
    packed, answers = tmp_path / "packed.tar.gz", tmp_path / "answers.tar.gz"
    pack(runs, packed)
    judge_ahead(packed, answers, ScriptedHost(tmp_path / "log"), seconds=60)
    return take_answers(runs, answers)


def answer(progress, first: dict[str, str]) -> None:
    """Answer every prompt that waits: coders by problem, the debugger, analysts that nothing pays."""
    for prompt in progress.prompts:
        text = {
            "analyst": json.dumps(NO),
            "debugger": json.dumps({"critical_issue": "line 1", "modification_plan": "mend it"}),
            "coder": fenced(source("timed", 4) if prompt.path.name > "002" else first[prompt.problem]),
        }[prompt.role]
        prompt.path.with_name(prompt.path.name.replace("prompt", "answer")).write_text(text)


def advance(runs: ModelRuns):
    return asyncio.run(runs.advance())


@thorough
def test_runs_advance_together_with_a_trip_for_each_kernel_and_end_with_a_table(tmp_path, problems):
    first = {"relu": source("timed", 3), "again": source("bad", 1)}
    runs, trips = begin_model_runs(tmp_path / "runs", problems, KNOBS, expert=False), 0
    progress = advance(runs)
    assert [question.kind for question in progress.questions] == ["baseline"] * 2
    while progress.ended < progress.total:
        if progress.prompts:
            answer(progress, first)
        else:
            assert trip(runs, tmp_path) and (trips := trips + 1) < 9
        runs = ModelRuns(tmp_path / "runs")  # as another process would
        progress = advance(runs)
    assert trips == 5, "baselines; seeds; the repair beside the other's profile; a sweep with its finalist; the other's"
    said = (tmp_path / "log").read_text().splitlines()
    twice = {told: times for told, times in Counter(said).items() if times > 1}
    assert twice == {"baseline": 2, "screen 2": 2}, "of two problems; anything else was judged twice"
    for planned in runs.planned_runs:
        prompts = list((tmp_path / "runs" / "handoff" / planned.problem).glob("*.prompt.md"))
        assert len(prompts) == len(list((runs.run_folder(planned) / "requests").iterdir())), "a prompt was asked twice"

    results = read_model_runs(runs, priced_as="claude-opus-5", replay=True)
    relu, again = results.rows
    assert (relu.first_try, relu.repairs, again.first_try, again.repairs) == ("faster", 0, "incorrect", 1)
    assert relu.after["algorithmic_structure"] < relu.after["tensor_tiling"] == pytest.approx(relu.ratio)
    assert relu.right and relu.contender is None and relu.expert_status == ""
    assert relu.costs["coder"].calls == 1 and again.costs["debugger"].calls == 1
    assert relu.without["tuner"] == pytest.approx(relu.after["algorithmic_structure"])
    assert relu.without[""] == pytest.approx(relu.ratio) and relu.without["team"] == 1.0, "the sweep was of its kernel"
    assert again.without["debugger"] == 1.0 < again.without[""], "its first kernel was broken"
    assert relu.cost.dollars > 0 and relu.replay == again.replay == "agrees"
    page = model_runs_page(results)
    assert "2 of 2 runs ended with a right kernel" in page and "the embedded expert alone not measured" in page
    coder = results.rows[0].costs["coder"].input_tokens + results.rows[1].costs["coder"].input_tokens
    assert f"| coder | 3 | {coder:,} |" in page
    assert "| debugger | 1." in page.partition("What each part was worth")[2]


@thorough
def test_a_part_is_left_out_of_runs_that_share_the_answers_of_equal_prompts(tmp_path, problems):
    first = {"relu": source("timed", 3), "again": source("bad", 1)}
    runs = begin_model_runs(tmp_path / "runs", problems, {**KNOBS, "tune": False}, expert=False)
    answered = 0
    while (progress := advance(runs)).ended < progress.total:
        answered += len(progress.prompts)
        answer(progress, first) if progress.prompts else trip(runs, tmp_path)
        if answered == 2:
            runs = leave_out(leave_out(runs, ["debugger"]), ["inter-stage-context"])
    assert Counter(planned.without for planned in runs.planned_runs) == {"": 2, **dict.fromkeys(runs.terms.without, 2)}
    results = read_model_runs(runs, replay=True)
    assert len(results.rows_without) == 4 and len(results.rows) == 2
    assert all(row.replay == "agrees" for row in (*results.rows, *results.rows_without))
    asked = sum(row.cost.calls for row in (*results.rows, *results.rows_without))
    assert asked > answered, "without context between stages, the first prompts are those of the whole run"
    debugger, context = parts_left_out(results.rows, results.rows_without)
    assert (debugger.pairs, debugger.better, debugger.worse) == (2, 1, 0), "its broken kernel stays broken"
    assert debugger.gain.value == pytest.approx(debugger.whole / debugger.without) and debugger.gain.value > 1
    assert (context.better, context.gain.value) == (0, 1.0)
    assert "| debugger | 2 |" in model_runs_page(results)
    CliRunner().invoke(lab, ["model_runs", str(tmp_path / "runs"), "--status", "--record", str(tmp_path / "kept")])
    assert (tmp_path / "kept" / "again-without-debugger.json.gz").is_file()
    with pytest.raises(BadInput, match="no knob leaves out 'luck'"):
        leave_out(runs, ["luck"])

    debugger, *_ = told = parts_so_far(runs)
    assert (debugger.part, debugger.problems) == ("debugger", ("relu", "again"))
    assert set(debugger.kernels) == {1}, "as many as the run that judged fewer"
    assert debugger.gain.value == pytest.approx((debugger.whole[0] / debugger.without[0]) ** 0.5)
    assert "| debugger | 2 |" in "\n".join(parts_section(told))
    begun = runs.folder / BEGUN
    ids = json.loads(begun.read_text())
    begun.write_text(
        json.dumps(ids | {f"{one} model without debugger": ids[f"{one} model"] for one in ("relu", "again")})
    )
    assert "debugger" not in {part.part for part in parts_so_far(runs)}, "the same kernels say nothing of a part"


def test_first_kernels_are_told_before_their_runs_end(tmp_path, problems):
    first = {"relu": source("timed", 3), "again": source("bad", 1)}
    runs = begin_model_runs(tmp_path / "runs", problems, KNOBS, expert=False)
    advance(runs)
    trip(runs, tmp_path)
    assert read_seeds(runs).without == ("relu", "again"), "nobody has answered"
    answer(advance(runs), first)
    advance(runs)
    trip(runs, tmp_path)
    assert advance(runs).ended < 2
    CliRunner().invoke(lab, ["model_runs", str(tmp_path / "runs"), "--status", "--seeds", str(tmp_path / "seeds")])
    told = json.loads((tmp_path / "seeds.json").read_text())
    relu, again = told["rows"]
    assert (relu["status"], again["status"]) == ("faster", "incorrect") and not told["without"]
    assert told["summary"]["right"] == 1 and told["summary"]["problems"] == 2
    assert told["summary"]["geometric_mean"] == pytest.approx(relu["ratio"] ** 0.5), "a wrong one counts as 1.0"
    assert relu["usage"]["input_tokens"] > 100 and relu["contender_status"] == ""
    assert "The first kernel of 1 of 2 problems is right" in (tmp_path / "seeds.md").read_text()

    CliRunner().invoke(lab, ["model_runs", str(tmp_path / "runs"), "--status", "--so-far", str(tmp_path / "far")])
    told = json.loads((tmp_path / "far.json").read_text())
    relu, again = told["rows"]
    assert relu["after"]["algorithmic_structure"] > 1 and relu["after"]["tensor_tiling"] is None
    assert (relu["right"], relu["kernels"], again["right"], again["kernels"]) == (1, 1, 0, 1)
    best = relu["after"]["algorithmic_structure"]
    assert told["summary"]["geometric_mean"] == pytest.approx(best**0.5), "a wrong one counts as 1.0"
    assert told["summary"]["reached"] == dict.fromkeys(relu["after"], 0) | {"algorithmic_structure": 2}
    assert "At 1 of 2 problems the model wrote a right kernel" in (tmp_path / "far.md").read_text()


def test_a_trip_that_is_broken_off_keeps_what_was_judged(tmp_path, problems):
    runs = begin_model_runs(tmp_path / "runs", problems, KNOBS, expert=False)
    advance(runs)
    pack(runs, tmp_path / "packed")
    progress = judge_ahead(tmp_path / "packed", tmp_path / "answers", ScriptedHost(tmp_path / "log"), seconds=0)
    assert progress.ended == 0
    assert take_answers(runs, tmp_path / "answers") <= 2
    assert trip(runs, tmp_path) >= 0 and len(advance(runs).prompts) == 2


def test_the_command_tells_what_waits_and_refuses_other_terms(tmp_path, problems):
    words = ["model_runs", str(tmp_path / "runs"), *map(str, problems), "--no-expert", "--knob", "target=h200"]
    told = CliRunner().invoke(lab, words).output
    assert told.count("evaluation") == 3 and "0 of 2 runs ended; 0 prompts wait" in told
    status = CliRunner().invoke(lab, ["model_runs", str(tmp_path / "runs"), "--status"]).output
    assert status == told
    with pytest.raises(BadInput, match="holds runs of other problems, or with other knobs"):
        begin_model_runs(tmp_path / "runs", problems, {"target": "h100"}, expert=False)
    with pytest.raises(BadInput, match="no runs were begun there"):
        ModelRuns(tmp_path)
    with pytest.raises(BadInput, match="two problems have one name"):
        begin_model_runs(tmp_path / "other", [problems[0], problems[0]], {})


def test_the_run_of_the_expert_takes_the_knobs_of_the_task_alone(tmp_path, problems):
    runs = begin_model_runs(tmp_path / "runs", problems[:1], {**KNOBS, "precision": "ieee"})
    advance(runs)
    model, expert = (
        json.loads((runs.run_folder(PlannedRun("relu", player)) / "run.json").read_text())
        for player in ("model", "expert")
    )
    assert (model["context"]["precision"], expert["context"]["precision"]) == ("ieee", "ieee")
    assert (model["context"]["max_optimizations"], expert["context"]["max_optimizations"]) == (1, 2)
    assert expert["model"] is None and expert["context"]["memory"] is False

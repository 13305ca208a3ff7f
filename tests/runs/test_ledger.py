"""Where the time of a run went: every call in history.jsonl, and one sum for evidence, page and command line."""

import asyncio
import functools
import io
import json
import time
from datetime import UTC, datetime, timedelta

import pytest
from langgraph.cache.memory import InMemoryCache
from rich.console import Console

from egg_graph import AnswerPending, Context, InfrastructureError, build_egg_graph, optimize, resume
from egg_graph.cli.optimize import conclude
from egg_graph.evaluator.spending import spending_on
from egg_graph.nodes.events import entry_of_event
from egg_graph.report import read_run
from egg_graph.runs.history import read_lines
from egg_graph.schema import CallEntry, Ledger, Memory, Sitting, Spending, Usage
from egg_graph.schema.spending import PARTS
from tests.graph.scripted import REFERENCE, ScriptedEvaluator, ScriptedTeam, kernel, tunable

GIB = 2.0**30


class Telling(ScriptedEvaluator):
    """Tells more time than its calls take, as an answer from a cache does, and its memory."""

    def baseline(self, task):
        return super().baseline(task).model_copy(update={"spent": Spending(seconds={"compile": 60, "timing": 20})})

    def evaluate(self, task, candidate, *, stage=None, finalist=False):
        memory = Memory(judge_bytes=(3 if finalist else 2) * GIB, baseline_bytes=GIB)
        spent = Spending(seconds={"correctness": 30, "sanitizer" if finalist else "profile": 10}, memory=memory)
        return super().evaluate(task, candidate, stage=stage, finalist=finalist).model_copy(update={"spent": spent})


class Capturing(ScriptedTeam):
    """Captures the reference before it writes, and asks no model."""

    def __init__(self, *script):
        super().__init__(*script, usage=Usage(seconds=0.1))

    def write(self, brief):
        with spending_on("capture"):
            time.sleep(0.002)
            return super().write(brief)


SCRIPT = [kernel("bad"), tunable("timed", 3, "tensor_tiling", [3, 2])]


def go(tmp_path, team=None, evaluator=None, **options):
    team = team or ScriptedTeam(SCRIPT, worth=[False])
    options = {"target": "h100", "runs_dir": tmp_path / "runs", "principles": ()} | options
    return optimize(REFERENCE, team=team, evaluator=evaluator or Telling(), **options)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return go(tmp_path_factory.mktemp("ledger"))


def calls_of(run):
    return [line for line in read_lines(run.folder) if isinstance(line, CallEntry)]


def test_every_call_has_its_begin_and_its_duration(run):
    calls = calls_of(run)
    assert [call.call for call in calls if call.call != "analyst"] == [
        "baseline", "coder", "evaluation", "debugger", "coder", "evaluation", "sweep", "evaluation", "finalist"
    ]  # fmt: skip
    begins = [call.begin for call in calls]
    assert begins == sorted(begins) and all(begin.tzinfo for begin in begins)
    for call in calls:
        assert sum(call.parts.values()) == pytest.approx(call.seconds), call
    evaluated = [call.candidate for call in calls if call.call == "evaluation"]
    assert evaluated == [attempt.candidate.id for attempt in run.attempts]
    for call, attempt in zip((call for call in calls if call.call == "evaluation"), run.attempts, strict=True):
        assert call.reason == ("" if attempt.evaluation.usable else attempt.evaluation.reason)


def test_the_parts_add_up_to_the_wall_time_and_all_tell_the_same_sum(run):
    ledger = Ledger.model_validate(json.loads((run.folder / "evidence.json").read_text())["ledger"])
    assert ledger == run.ledger == read_run(run.folder).ledger
    assert tuple(ledger.parts) == PARTS and sum(ledger.parts.values()) == pytest.approx(ledger.seconds)
    assert all(ledger.parts[p] > 0 for p in ("model", "compile", "timing", "correctness", "profile", "sanitizer"))
    assert ledger.parts["compile"] < ledger.seconds, "what an answer tells counts only within the call that got it"
    assert ledger.memory == Memory(judge_bytes=3 * GIB, baseline_bytes=GIB)
    assert ledger.roles[1].role == "coder" and ledger.roles[1].usage.input_tokens == 20


def test_the_last_line_of_the_command_says_where_time_and_memory_went(run):
    out = io.StringIO()
    conclude(Console(file=out, width=300), run)
    last = out.getvalue().splitlines()[-1]
    assert last.startswith(f"time      {run.ledger.seconds:.1f} s: ") and " other " in last
    assert last.endswith("GPU memory at most: judge 3.0 GiB, candidate not measured, baseline 1.0 GiB")


def test_a_capture_and_a_team_without_a_model_are_told_apart_from_a_model(tmp_path):
    ledger = go(tmp_path, Capturing([kernel("ok")], [False]), ScriptedEvaluator()).ledger
    assert ledger.parts["capture"] > 0 and ledger.parts["team"] > 0 and ledger.parts["model"] == 0
    assert ledger.memory == Memory()


def test_a_call_that_the_machine_fails_is_counted_each_time_and_a_resume_adds_to_it(tmp_path, monkeypatch):
    monkeypatch.setattr("asyncio.sleep", functools.partial(asyncio.sleep, 0))
    with pytest.raises(InfrastructureError):
        go(tmp_path, evaluator=ScriptedEvaluator(faults=99))
    (folder,) = (tmp_path / "runs").iterdir()
    before = Ledger.of(read_lines(folder))
    assert before.calls["evaluation"] == 3 and before.parts["failed"] > 0 and before.cut_off == 0
    assert "the GPU is busy" in (folder / "history.jsonl").read_text()
    parts = {"team": ScriptedTeam([kernel("ok", 2)], [False]), "evaluator": ScriptedEvaluator(), "principles": ()}
    after = resume(folder.name, runs_dir=tmp_path / "runs", **parts).ledger
    assert (after.sittings, after.calls["baseline"], after.calls["evaluation"]) == (2, 1, 5)
    assert after.seconds > before.seconds and after.parts["failed"] == before.parts["failed"]
    assert sum(after.parts.values()) == pytest.approx(after.seconds)


class Elsewhere(ScriptedEvaluator):
    def baseline(self, task):
        raise AnswerPending("nobody has answered yet")


def test_an_answer_that_is_still_to_come_was_waited_for_and_did_not_fail(tmp_path):
    with pytest.raises(AnswerPending):
        go(tmp_path, evaluator=Elsewhere())
    (folder,) = (tmp_path / "runs").iterdir()
    ledger = Ledger.of(read_lines(folder))
    assert ledger.parts["waiting"] > 0 and ledger.parts["failed"] == 0 and ledger.cut_off == 0


class Kept(Telling):
    cache_key = "one"


def test_what_is_found_in_a_cache_is_no_call():
    cache = InMemoryCache()
    for sent in ([], calls := []):
        team = ScriptedTeam([kernel("ok")], [False])
        graph = build_egg_graph(team=team, evaluator=Kept(), cache=cache, principles=())
        stream = graph.stream({"reference": REFERENCE}, context=Context(target="h100"), stream_mode="custom")
        sent += [entry_of_event(event) for event in stream if event["event"] == "ledger"]
    found = next(call for call in calls if call.call == "baseline")
    assert found.memory == Memory() and set(found.parts) == {"other"}, "a kept answer is kept without what it cost"
    assert [call.call for call in calls if call.call in ("evaluation", "finalist")] == ["finalist"]


START = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds):
    return START + timedelta(seconds=seconds)


def call(begin, seconds, part, kind="evaluation"):
    return CallEntry(call=kind, begin=at(begin), seconds=seconds, parts={part: seconds})


def test_a_sitting_that_was_killed_lasts_to_its_last_call_and_is_told():
    lines = [
        Sitting(begin=at(0)), call(1, 4, "timing"), call(5, 2, "compile"),
        Sitting(begin=at(3600)), call(3601, 5, "timing"), Sitting(begin=at(3600), seconds=8.0),
    ]  # fmt: skip
    ledger = Ledger.of(lines)
    assert (ledger.seconds, ledger.sittings, ledger.cut_off) == (15.0, 2, 1)
    assert (ledger.parts["timing"], ledger.parts["compile"], ledger.parts["other"]) == (9.0, 2.0, 4.0)
    assert Ledger.of([]) is None


def test_calls_side_by_side_share_the_time_that_they_have_in_common():
    lines = [Sitting(begin=at(0)), call(0, 4, "timing"), call(2, 4, "compile"), Sitting(begin=at(0), seconds=6.0)]
    parts = Ledger.of(lines).parts
    assert (parts["timing"], parts["compile"], parts["other"]) == (3.0, 3.0, 0.0)


def test_a_line_that_was_cut_short_costs_no_other_line(tmp_path):
    first = go(tmp_path, ScriptedTeam([kernel("ok")], [False]), ScriptedEvaluator())
    history = first.folder / "history.jsonl"
    lines = history.read_text().splitlines()
    history.write_text("\n".join([*lines[:-1], lines[-1][:20]]))
    assert len(read_lines(first.folder)) == len([line for line in lines if '"line"' in line]) - 1

"""Runs whose coders, models behind a real HTTP server, draft side by side: cost, budgets, replay and going on."""

import json
from pathlib import Path

import pytest
from langgraph.types import PregelTask, StateSnapshot
from typer.testing import CliRunner

import egg_graph
import egg_graph.report
from egg_graph import Context
from egg_graph.agents import requests
from egg_graph.agents.analyst import ANALYST
from egg_graph.cli import app
from egg_graph.model_requests import read_requests
from egg_graph.runs.estimate import estimate_run
from egg_graph.runs.replay import replay_run
from egg_graph.runs.request_log import written_drafts
from egg_graph.schema import BadInput, ModelUnavailable, SideDraft, Usage
from egg_graph.team import check_model, name_models, read_models
from tests.agents.answers import ANALYSIS, DIAGNOSIS, fenced
from tests.agents.openai_server import OpenAIServer, completion, failure
from tests.agents.test_model_graph import module, role_of
from tests.graph.scripted import REFERENCE, ScriptedEvaluator

STAGE = "algorithmic_structure"
KNOBS = {"target": "h100", "expert_seed": False, "accept": "right", "stages": (STAGE,), "max_optimizations": 1}
MODELS = {"analyst": "openai:thinker", "coder": ["openai:one", "openai:two"], "debugger": "openai:thinker"}


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(requests, "FIRST_WAIT", 0.01)
    monkeypatch.setattr(egg_graph.report, "render", lambda run: "")  # its plots would take most of the time
    for name in ("EGG_MODEL", "OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "relu.py").write_text(REFERENCE)


class Coders:
    """Answers by who asks: a draft by its number and by how many were written in its place before."""

    def __init__(self, *, fail=(), worth=True, words=None):
        self.fail, self.words, self.bodies = set(fail), words or {}, []
        self.analysis = {**ANALYSIS, "worth_optimizing": worth, "alternatives": ["another way"]}

    def __call__(self, body):
        self.bodies.append(body)
        if role_of(body) == "analyst":
            return completion(json.dumps(self.analysis))
        if role_of(body) == "debugger":
            return completion(json.dumps(DIAGNOSIS))
        draft = self.draft_of(body)
        if draft in self.fail:
            return failure(503)
        mode = "analysis to carry out" in body["messages"][1]["content"]
        word = self.words.get((mode, draft), f"ok {9 - 3 * mode - draft}")
        return completion(fenced(module(word)) if word else "no code")

    @staticmethod
    def draft_of(body):
        said = body["messages"][1]["content"]
        return next((n for n in (1, 2, 3) if f"You are coder {n} of" in said), 0)

    def asked(self):
        return sorted((role_of(body), self.draft_of(body)) for body in self.bodies)


@pytest.fixture
def serve(monkeypatch):
    servers = []

    def start(step):
        server = OpenAIServer([step]).__enter__()
        servers.append(server)
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        return step

    yield start
    for server in servers:
        server.__exit__()


def optimize(model=MODELS, **options):
    parts = {"evaluator": ScriptedEvaluator(clock=True), "principles": ()}
    return egg_graph.optimize("relu.py", model=model, **parts, **{**KNOBS, "width": 2, **options})


def resume(folder, **options):
    return egg_graph.resume(folder.name, evaluator=ScriptedEvaluator(clock=True), principles=(), **options)


def the_run():
    (request,) = Path("runs").glob("*/run.json")
    return request.parent


def test_drafts_are_dealt_to_the_coders_models_a_kernel_is_mended_by_its_author_and_the_run_is_replayed(serve):
    coders = serve(Coders(words={(True, 1): "bad 1", (True, 2): "bad 2", (True, 0): "ok 1"}))
    run = optimize()
    assert [(a.candidate.author, a.candidate.mode) for a in run.attempts] == [
        ("one", "seed"),
        ("two", "seed"),
        ("two", "optimize"),
        ("one", "optimize"),
        ("one", "repair"),
    ]
    assert [a.candidate.plan for a in run.attempts[2:4]] == ["another way", ANALYSIS["plan"]]
    kept = read_requests(run.folder)
    assert sorted((r.role, r.model, r.draft) for r in kept) == [
        ("analyst", "thinker", 0),
        *[("coder", "one", n) for n in (0, 1, 1)],
        *[("coder", "two", 2)] * 2,
        ("debugger", "thinker", 0),
    ]
    assert run.usage.calls == 7 == sum((a.usage for a in run.attempts), Usage()).calls
    (analyst,) = (body for body in coders.bodies if role_of(body) == "analyst")
    assert "alternatives" in analyst["response_format"]["json_schema"]["schema"]["properties"]
    assert "alternatives" not in ANALYST.schema["properties"]
    assert replay_run(run.folder).differs == ()


def test_a_draft_whose_endpoint_fails_is_asked_again_alone(serve):
    first = serve(Coders(fail={2}, worth=False))
    with pytest.raises(ModelUnavailable):
        optimize("openai:one")
    assert first.asked() == [("coder", 1), *[("coder", 2)] * 4]
    second = serve(Coders(worth=False))
    run = resume(the_run())
    assert second.asked() == [("analyst", 0), ("coder", 2)]
    assert [a.candidate.source for a in run.attempts] == [module("ok 8"), module("ok 7")]
    assert (run.usage.calls, run.usage.failed) == (7, 4) and len(read_requests(run.folder)) == 7
    assert [(a.usage.calls, a.usage.failed) for a in run.attempts] == [(1, 0), (5, 4)]


def test_a_budget_of_requests_is_never_overrun_and_a_raised_one_goes_on_behind_the_drafts(serve):
    coders = serve(Coders(words={(False, 1): "", (False, 2): ""}))
    run = optimize("openai:one", max_calls=3)
    assert [len(coders.bodies), run.usage.calls] == [3, 3], "two drafts, and one of them asked again"
    assert "max_calls (3) reached" in run.verdict
    coders.words = {(False, 0): "ok 5"}
    longer = resume(run.folder, max_calls=5)
    assert [role for role, _ in coders.asked()].count("debugger") == 1
    assert len(coders.bodies) == 5 == longer.usage.calls
    assert longer.kernel == module("ok 5")


def test_the_command_takes_several_coders_and_says_what_they_need():
    words = ["coder=one", "coder=two", "thinker"]
    assert read_models(words) == {"analyst": "thinker", "coder": ["one", "two"], "debugger": "thinker"}
    assert name_models(read_models(words)) == "analyst=thinker, coder=one, coder=two, debugger=thinker"
    for wrong in (["coder=one", "coder=one", "thinker"], ["analyst=one", "analyst=two", "thinker"]):
        with pytest.raises(BadInput, match="has the model 'one' already"):
            read_models(wrong)
    with pytest.raises(BadInput, match="names no model"):
        check_model({**MODELS, "coder": ["one", " "]})
    with pytest.raises(BadInput, match="pass a chat model"):
        check_model({**MODELS, "analyst": ["one", "two"]})
    given = (
        "optimize relu.py --model handoff --model coder=handoff:a --model coder=handoff:b --device none --target h100"
    )
    result = CliRunner().invoke(app, given.split())
    assert result.exit_code == 2
    assert "the coder has 2 models, which draft side by side: give --width 2" in " ".join(result.stderr.split())


def test_the_estimate_counts_every_draft(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:1/v1")

    def calls(**knobs):
        return estimate_run("openai:one", Context(stages=(STAGE,), **knobs), REFERENCE).usage.calls

    assert calls() == 5 and calls(width=3) == 3 + 2 + 1 + 3
    assert calls(width=3, max_calls=4) == 4


@pytest.mark.parametrize(
    ("node", "result", "written"),
    [
        ("coder", {"drafts": {"__overwrite__": []}}, set()),
        ("draft", {"drafts": [SideDraft(number=2)]}, {(STAGE, 1, 2)}),
        ("draft", None, set()),
        ("evaluator", {"drafts": {"__overwrite__": [SideDraft(number=2)]}, "usage": Usage(calls=1)}, set()),
    ],
)
def test_drafts_that_are_saved_beside_one_that_is_not_are_booked(node, result, written):
    """As a run leaves it that is killed before its step ends."""
    task = PregelTask("id", f"{STAGE}.{node}", (), result=result)
    saved = StateSnapshot({"attempts": []}, (), {}, None, None, None, (task,), ())
    assert written_drafts(saved) == written

"""Runs played by a model behind a real HTTP server: what they keep, how they are stopped, go on and are replayed."""

import functools
import json
import logging
import os
import re
import signal
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import egg_graph
import egg_graph.report
from egg_graph import Context
from egg_graph.agents import requests
from egg_graph.agents.handoff_folder import open_prompts, write_answer
from egg_graph.cli import app
from egg_graph.model_requests import read_requests
from egg_graph.report import read_run, render
from egg_graph.runs.estimate import estimate_run
from egg_graph.runs.replay import replay_run
from egg_graph.schema import AnswerPending, BadInput, ModelUnavailable
from tests.agents.answers import ANALYSIS, DIAGNOSIS, TEST_CODE, fenced
from tests.agents.openai_server import OpenAIServer, Stall, completion, failure
from tests.agents.test_model_graph import NOT_WORTH, by_role, module, role_of
from tests.graph.scripted import REFERENCE, ScriptedEvaluator
from tests.report.test_page import Page

WORTH = completion(json.dumps(ANALYSIS))
KNOBS = {"target": "h100", "expert_seed": False, "accept": "right"}
OK = [completion(fenced(module(f"ok {9 - n}"))) for n in range(5)]


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(requests, "FIRST_WAIT", 0.01)
    monkeypatch.setattr(egg_graph.report, "render", lambda run: "")  # its plots would take most of the time
    for name in ("EGG_MODEL", "OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "relu.py").write_text(REFERENCE)
    monkeypatch.setenv("COLUMNS", "300")


@pytest.fixture
def serve(monkeypatch):
    """Start a server with a script, which the environment then names."""
    servers = []

    def start(*script):
        server = OpenAIServer(script).__enter__()
        servers.append(server)
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        return server

    yield start
    for server in servers:
        server.__exit__()


def optimize(**options):
    return egg_graph.optimize(
        "relu.py", model="openai:scripted", evaluator=ScriptedEvaluator(clock=True), principles=(), **KNOBS, **options
    )


def resume(folder, **options):
    return egg_graph.resume(folder.name, evaluator=ScriptedEvaluator(clock=True), principles=(), **options)


def egg(monkeypatch, *words):
    """Run the command with a scripted evaluator."""
    parts = {"evaluator": ScriptedEvaluator(clock=True), "principles": (), **KNOBS}
    monkeypatch.setattr(egg_graph, "optimize", functools.partial(egg_graph.optimize, **parts))
    return CliRunner().invoke(app, [str(word) for word in words])


def the_run():
    (path,) = (os.path.join("runs", name) for name in os.listdir("runs"))
    return Path(path)


def test_every_request_is_kept_and_the_run_is_replayed_without_key_endpoint_or_gpu(serve, monkeypatch):
    coder = [failure(429), completion("no code"), *OK]
    serve(*by_role(coder, analyst=WORTH))
    run = optimize(max_optimizations=1)
    calls = read_requests(run.folder)
    assert [call.outcome for call in calls[:3]] == ["failed", "answered", "answered"]
    assert (calls[1].answer, calls[2].answer) == ("no code", fenced(module("ok 9")))
    assert [message.role for message in calls[2].prompt] == ["system", "user", "assistant", "user"]
    assert sum(call.usage.calls for call in calls) == run.usage.calls == len(calls)
    assert sum(call.usage.input_tokens for call in calls) == run.usage.input_tokens
    assert run.state["costs"]["coder"].calls + run.state["costs"]["analyst"].calls == run.usage.calls
    assert run.state["costs"]["algorithmic_structure"].failed == 1

    monkeypatch.delenv("OPENAI_BASE_URL")
    assert estimate_run(f"replay:{run.folder}", Context(), REFERENCE) is None, "its answers are paid"
    result = CliRunner().invoke(app, ["replay", str(run.folder), "--json"])
    told = json.loads(result.output)
    assert result.exit_code == 0 and told["differs"] == []
    assert {"kernel", "cost", "attempts", "verdict"} <= set(told["agrees"])

    path = run.folder / "requests" / "0003-coder.json"
    kept = json.loads(path.read_text())
    kept["prompt"][1]["text"] = kept["prompt"][1]["text"].replace("relu", "gelu")
    path.write_text(json.dumps(kept))
    with pytest.raises(
        BadInput, match=r"asks what the run did not: the coder, attempt 1 .*gelu.* in line .*relu"
    ) as miss:
        replay_run(run.folder)
    assert "\n" not in str(miss.value)
    path.write_text("{")
    result = CliRunner().invoke(app, ["replay", str(run.folder)])
    assert result.exit_code == 2 and "0003-coder.json: no request of a run, or a damaged one" in result.stderr


def knobbed(verdict, stage, values):
    """A module with one knob, which the scripted evaluator takes as its milliseconds."""
    knobs = f"CONFIG = {{'NUMBER': {values[0]}}}\nSPACE = {{{stage!r}: {{'NUMBER': {values}}}}}\n"
    return f"{module(verdict)}{knobs}TILES = CONFIG['NUMBER']\n"


def test_every_trial_of_the_sweeps_stands_in_the_evidence_of_a_run(serve):
    serve(*by_role([completion(fenced(knobbed("timed 3", "parallel_mapping", [3, 1, 2])))], analyst=NOT_WORTH))
    run = optimize(max_optimizations=1)
    assert [a.candidate.mode for a in run.attempts] == ["seed", "tune"]
    (sweep,) = json.loads((run.folder / "evidence.json").read_text())["sweeps"]
    assert (sweep["stage"], sweep["kernel"]) == ("parallel_mapping", run.attempts[0].candidate.id)
    assert (sweep["knobs"], sweep["winner"]) == ({"NUMBER": [3, 1, 2]}, {"NUMBER": 1})
    told = [(trial["config"]["NUMBER"], trial["status"], trial["milliseconds"]) for trial in sweep["trials"]]
    assert told == [(3, "faster", 3.0), (1, "faster", 1.0), (2, "faster", 2.0)]


def test_the_page_of_a_run_tells_what_was_mended_in_the_answers_of_every_role(serve):
    idle = "CONFIG = {'BLOCK': 256}\nSPACE = {'tensor_tiling': {'BLOCK': [128]}}\n"
    coder = [completion(fenced(module("bad 1") + idle + TEST_CODE)), OK[0], OK[1]]
    analyst = completion(json.dumps(ANALYSIS | {"by": "magic"}))
    diagnosis = completion(json.dumps({"found": DIAGNOSIS}))
    serve(*by_role(coder, analyst=analyst, debugger=diagnosis))
    run = optimize(max_optimizations=1, stages=("algorithmic_structure",))
    assert [a.candidate.mode for a in run.attempts] == ["seed", "repair", "optimize"]
    _, seed, repair, optimized = Page(render(read_run(run.folder))).text.split("Mended in the answers. ")
    assert seed.startswith("coder: removed get_inputs ")
    assert " coder: knob dropped: SPACE['tensor_tiling']['BLOCK'] turns a knob that the module never reads" in seed
    assert repair.startswith("debugger: the object stood inside 'found' ")
    assert optimized.startswith("analyst: \"by\": 'magic' read as rewrite ")


def test_a_run_that_lost_its_endpoint_goes_on_without_paying_twice(serve):
    first = serve(completion("no code"), failure(503))
    with pytest.raises(ModelUnavailable):
        optimize(stages=("algorithmic_structure",))
    assert len(first.requests) == 1 + 4
    second = serve(*by_role([OK[0]], analyst=NOT_WORTH))
    run = resume(the_run())
    assert run.status == "correct"
    assert len(second.requests) == 2, "the answer that had come is not asked for again: a re-ask, and the analyst"
    assert "Your answer cannot be used" in second.prompts[0]
    assert (run.usage.calls, run.usage.failed) == (7, 4), "what failed is booked as well"
    assert run.usage == sum((a.usage for a in run.attempts), run.state["pending"])


def test_a_budget_ends_the_run_at_its_best_kernel_and_a_resume_may_raise_it(serve):
    server = serve(*by_role(list(OK), analyst=WORTH))
    run = optimize(max_calls=4, max_optimizations=1)
    assert len(server.requests) == 4, "hard: the coder that the fourth answer asks for is not called"
    assert run.status == "correct" and run.kernel == module("ok 8")
    assert "the run stopped early: max_calls (4) reached" in run.verdict
    with pytest.raises(BadInput, match="only its budgets may be given anew"):
        resume(run.folder, max_repairs=9)
    longer = resume(run.folder, max_calls=7)
    assert len(server.requests) == 7 and longer.usage.calls == 7
    assert len(longer.attempts) == 4 and longer.kernel == module("ok 6")
    assert [role_of(body) for body in server.requests] == ["coder", *["analyst", "coder"] * 3]
    assert "max_calls (7) reached" in longer.verdict
    whole = resume(run.folder, max_calls=0)
    assert len(whole.attempts) == 5 and "stopped early" not in whole.verdict
    assert len(whole.summaries) == 4


def test_a_stage_and_a_role_have_budgets_of_their_own(serve, caplog):
    caplog.set_level(logging.INFO, logger="egg_graph")
    server = serve(*by_role(list(OK), analyst=WORTH))
    run = optimize(budgets=("parallel_mapping.calls=1", "tensor_tiling.calls=0"), max_optimizations=1)
    tried = [a.candidate.stage for a in run.attempts]
    assert tried == ["algorithmic_structure", "algorithmic_structure", "memory_optimization"]
    assert len(server.requests) == 3 + 1 + 0 + 2, "an analyst's plan of the second stage is not carried out"
    assert "a part ended early: parallel_mapping.calls (1) reached" in run.verdict
    outcomes = {summary.stage: summary.outcome for summary in run.summaries}
    assert outcomes["parallel_mapping"] == outcomes["tensor_tiling"] == "budget_exhausted"

    serve(*by_role([completion(fenced(module("bad 1"))), *OK], analyst=WORTH))
    unrepaired = optimize(budgets=("debugger.calls=0",), max_optimizations=1)
    assert [a.candidate.mode for a in unrepaired.attempts] == ["seed"]
    assert unrepaired.status == "reference_kept"
    assert caplog.text.count("the price of scripted is not known") == 2, "once a run, before its first request"


def test_a_budget_of_money_needs_prices(serve, tmp_path):
    server = serve(*by_role(list(OK), analyst=WORTH))
    with pytest.raises(BadInput, match=r"that of 'scripted' is not known: add it to prices\.toml"):
        optimize(max_dollars=1)
    row = 'model = "scripted"\ninput = 10.0\noutput = 100.0\nsource = "a bill"\n'
    (tmp_path / "prices.toml").write_text(f"[[price]]\n{row}")
    run = optimize(max_dollars=0.008, knowledge_dir=str(tmp_path))
    assert len(server.requests) == 3 and round(run.usage.dollars, 6) == 0.009
    assert "max_dollars (0.008) reached" in run.verdict


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_the_run_before_the_next_request(serve, monkeypatch, sent, status):
    def step(body):
        os.kill(os.getpid(), sent)
        return OK[0]

    server = serve(step)
    ignored = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell starts a command in the background
    try:
        result = egg(monkeypatch, "optimize", "relu.py", "--model", "openai:scripted")
        time.sleep(0.1)
    finally:
        signal.signal(signal.SIGINT, ignored)
    assert result.exit_code == status
    assert f"stopped; go on with: egg-graph optimize --resume {the_run().name}" in result.stderr
    assert len(server.requests) == 1
    (call,) = read_requests(the_run())
    assert call.outcome in ("stopped", "answered") and call.usage.input_tokens > 0


def test_the_command_estimates_before_and_tells_failures_and_cost(serve, monkeypatch):
    serve(failure(500, "oops"), *by_role([OK[0]]))
    result = egg(
        monkeypatch,
        "optimize",
        "relu.py",
        "--model",
        "openai:scripted",
        "--timeout",
        5,
        "--max-calls",
        9,
        "--device",
        "none",
    )
    assert result.exit_code == 0, result.output
    said = " ".join(result.output.split())
    assert (
        "estimate about 5 requests, " in said and "price of scripted unknown (what such runs took; no promise)" in said
    )
    assert "model failed model scripted at http" in said and "HTTP 500: oops" in said and "asked again in 0 s" in said
    assert "model calls (1 failed)" in said and "calls' estimated)" in said and "price of" in said
    request = json.loads((the_run() / "run.json").read_text())
    assert request["context"]["timeout"] == 5.0


def test_each_role_gives_an_endpoint_so_long_for_its_answer_as_the_runs_timeout_says(serve):
    answers = {"coder": [Stall(5.0), completion(fenced(module("bad 9"))), OK[0]]}
    answers |= {"debugger": [Stall(5.0), completion(json.dumps(DIAGNOSIS))], "analyst": [Stall(5.0), NOT_WORTH]}
    server = serve(lambda body: answers[role_of(body)].pop(0))
    events = []
    run = optimize(timeout=0.4, stages=("algorithmic_structure",), on_event=events.append)
    assert run.status == "correct" and len(server.requests) == 7

    failed = [call for call in read_requests(run.folder) if call.outcome == "failed"]
    assert [call.role for call in failed] == ["coder", "debugger", "analyst"]
    for call in failed:
        assert 0.4 <= call.usage.seconds < 3 and call.again_in == 0.01
        assert call.reason.endswith("no answer in time; raise --timeout (timeout=), or try again later")
        assert call.usage.estimated == 1 and call.usage.input_tokens > 1000, "it may have been at work, and be paid"
    assert (run.usage.calls, run.usage.failed, run.usage.estimated) == (7, 3, 3)
    told = [event for event in events if event["event"] == "request" and event["status"] == "failed"]
    assert [event["reason"] for event in told] == [call.reason for call in failed]


def test_handoff_from_the_command_line(monkeypatch):
    answers = {"coder": fenced(module("ok 3")), "analyst": '{"worth_optimizing": false, "root_cause": "at the floor"}'}
    ended, whole = [], egg_graph.optimize

    def listen(event):
        if event.get("event") == "working" and "waits for" in event.get("doing", ""):
            folder = the_run() / "handoff"
            for prompt in open_prompts(folder):
                head = (folder / f"{prompt.id}.prompt.md").read_text().splitlines()[0]
                assert f"{prompt.id}.answer.md" in head and head not in prompt.text
                write_answer(folder, prompt.id, answers[prompt.role])

    def watched(*args, on_event, **options):
        ended.append(whole(*args, on_event=listen, **options))
        return ended[0]

    monkeypatch.setattr(egg_graph, "optimize", watched)
    result = egg(monkeypatch, "optimize", "relu.py", "--model", "handoff", "--stage", "algorithmic_structure")
    assert result.exit_code == 0, result.output
    usage = ended[0].usage
    assert (usage.calls, usage.estimated, usage.failed) == (2, 2, 0) and usage.input_tokens > 3000
    assert (the_run() / "handoff" / "001-coder.answer.md").exists()


def test_a_raised_budget_brings_the_re_ask_that_it_withheld_and_the_replay_agrees(serve):
    debugger = iter([completion('{"cause": "tiles"}'), completion(json.dumps(DIAGNOSIS))])
    coder = [completion(fenced(module("bad 9"))), *OK]

    def step(body):
        return next(debugger) if role_of(body) == "debugger" else by_role_step(body)

    (by_role_step,) = by_role(coder, analyst=NOT_WORTH)
    server = serve(step)
    events = []
    run = optimize(max_calls=2, max_tokens=240, stages=("algorithmic_structure",), on_event=events.append)
    assert run.status == "reference_kept" and len(server.requests) == 2
    (said,) = [e["reason"] for e in events if e["event"] == "role" and e["role"] == "debugger"]
    assert said == (
        "answer not usable: it holds no JSON object with 'critical_issue'; not asked again: max_calls (2) reached; "
        "the evaluator's finding stands in"
    )
    run = resume(run.folder, max_calls=4)  # the tokens still withhold it
    assert run.status == "reference_kept" and len(server.requests) == 2
    run = resume(run.folder, max_tokens=0)
    assert [role_of(body) for body in server.requests] == ["coder", "debugger", "debugger", "coder"]
    diagnosis = run.attempts[1].diagnosis
    assert diagnosis.modification_plan == DIAGNOSIS["modification_plan"] and not diagnosis.unusable
    assert replay_run(run.folder).differs == ()


def test_the_estimate_counts_what_will_run(monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:1/v1")

    def estimate(model="openai:scripted", *, timed=True, **knobs):
        return estimate_run(model, Context(**knobs), REFERENCE, timed=timed)

    assert estimate().usage.calls == 11
    assert estimate(timed=False).usage.calls == 5, "tuning that nothing times is not paid"
    assert estimate(timed=False, tune_untimed=True).usage.calls == 11
    assert estimate(max_calls=4).usage.calls == 4
    assert estimate(max_attempts=2).usage.calls == 3
    assert estimate(max_tokens=20_000).usage.calls == 3
    assert estimate(budgets=("analyst.calls=0", "coder.calls=2")).usage.calls == 3
    assert "price of scripted unknown" in str(estimate())
    assert str(estimate("handoff")).endswith(" out"), "nobody is paid for a file"
    assert estimate(None) is None
    mixed = {"analyst": "handoff", "coder": ["handoff", "openai:scripted"], "debugger": "handoff"}
    assert "price of scripted unknown" in str(estimate(mixed, width=2)), "one of the coders is paid"


def test_a_run_whose_roles_had_finished_was_not_stopped_by_the_budget_that_they_used_up(serve):
    serve(*by_role([OK[0]], analyst=NOT_WORTH))
    run = optimize(max_calls=2, stages=("algorithmic_structure",))
    assert run.usage.calls == 2 and "max_calls" not in run.verdict
    (summary,) = run.summaries
    assert summary.outcome == "improved" and not summary.cut_short
    longer = optimize(max_calls=3, stages=("algorithmic_structure", "parallel_mapping"))
    assert [one.outcome for one in longer.summaries] == ["improved", "not_worth_optimizing"]
    assert "max_calls" not in longer.verdict


def test_a_lower_budget_at_resume_forbids_the_request_that_waits(tmp_path):
    asked = {"evaluator": ScriptedEvaluator(clock=True), "principles": ()}
    with pytest.raises(AnswerPending):
        egg_graph.optimize("relu.py", model=f"handoff:{tmp_path / 'prompts'},wait=0", **asked, **KNOBS)
    (seed,) = open_prompts(tmp_path / "prompts")
    write_answer(tmp_path / "prompts", seed.id, fenced(module("ok 3")))
    with pytest.raises(AnswerPending):
        resume(the_run())
    (plan,) = open_prompts(tmp_path / "prompts")
    run = resume(the_run(), max_calls=1)
    assert run.status == "correct" and "max_calls (1) reached" in run.verdict
    assert [prompt.id for prompt in open_prompts(tmp_path / "prompts")] == [plan.id], "another prompt was sent"


def test_a_run_finds_its_prompts_from_another_working_directory(tmp_path, monkeypatch):
    asked = {"evaluator": ScriptedEvaluator(clock=True), "principles": ()}
    with pytest.raises(AnswerPending, match=re.escape(str(tmp_path / "prompts"))) as pending:
        egg_graph.optimize("relu.py", model="handoff:prompts,wait=0", **asked, **KNOBS)
    folder = the_run().resolve()
    assert f"go on with egg_graph.resume({folder.name!r}, runs_dir='runs')" in pending.value.__notes__
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with pytest.raises(AnswerPending):
        egg_graph.resume(folder.name, runs_dir=folder.parent, **asked)
    assert len(open_prompts(tmp_path / "prompts")) == 1, "the same prompt, asked once"
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize("by", ["option", "environment"])
def test_the_command_ends_a_run_that_waits_for_a_file_and_takes_the_answer_when_it_goes_on(by, monkeypatch, tmp_path):
    name = f"handoff:{tmp_path / 'prompts'},wait=0"
    monkeypatch.setenv("EGG_MODEL", name if by == "environment" else "")
    option = ["--model", name] if by == "option" else []
    given = ["optimize", "relu.py", *option, "--device", "none", "--no-expert-seed", "--target", "h100"]
    waits = CliRunner().invoke(app, given)
    assert waits.exit_code == 4 and "no answer yet in" in waits.output, waits.output
    assert [prompt.role for prompt in open_prompts(tmp_path / "prompts")] == ["coder"]

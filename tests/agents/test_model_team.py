"""ModelTeam over a real ChatOpenAI against a real HTTP server on localhost that sends what servers send."""

import asyncio
import json

import pytest

from egg_graph.agents import HandoffModel, ModelTeam, load_chat_model
from egg_graph.agents.analyst import ANALYST
from egg_graph.agents.parsing import Reply
from egg_graph.schema import BadInput, InfrastructureError, ModelRefused
from egg_graph.team import Team
from tests.agents.answers import ANALYSIS, DIAGNOSIS, HOPELESS, MENDED, MODULE, fenced
from tests.agents.briefs import FINDING, make_brief, seed_brief
from tests.agents.openai_server import OpenAIServer, Stall, completion, failure, raw


def team_at(server: OpenAIServer, timeout: float = 10.0) -> ModelTeam:
    return ModelTeam(load_chat_model("scripted-model", base_url=server.url, timeout=timeout), tries=1)


WRITE = [
    pytest.param(lambda team, brief: team.write(brief), id="write"),
    pytest.param(lambda team, brief: asyncio.run(team.awrite(brief)), id="awrite"),
]


def test_it_is_a_team_and_carries_the_coders_name():
    with OpenAIServer([completion("x")]) as server:
        team = team_at(server)
    assert isinstance(team, Team)
    assert team.name == "scripted-model"


def test_the_coder_writes_a_seed():
    with OpenAIServer([completion(fenced(MODULE), input_tokens=1000, output_tokens=200)]) as server:
        draft = team_at(server).write(seed_brief())
    assert (draft.source, draft.problem) == (MODULE, "")
    assert (draft.usage.calls, draft.usage.input_tokens, draft.usage.output_tokens) == (1, 1000, 200)
    assert draft.usage.seconds > 0
    system, human = server.requests[0]["messages"]
    assert system["role"] == "system" and "Your role: CODER" in system["content"]
    assert "Rules of Triton" in system["content"] and "Write a Triton implementation" in human["content"]


def test_a_malformed_module_is_mended_without_asking_again():
    with OpenAIServer([completion(text) for text in MENDED.values()]) as server:
        team, brief = team_at(server), make_brief(mode="repair")
        drafts = {kind: team.write(brief) for kind in MENDED}
    for kind, draft in drafts.items():
        assert draft.problem == "" and "class ModelNew" in draft.source and "get_inputs" not in draft.source, kind
    assert len(server.requests) == len(MENDED)


@pytest.mark.parametrize("kind", HOPELESS)
def test_an_unreadable_answer_is_asked_again_once_with_the_reason(kind):
    text, reason = HOPELESS[kind]
    with OpenAIServer([completion(text), completion(fenced(MODULE))]) as server:
        draft = team_at(server).write(make_brief())
    assert (draft.source, draft.problem) == (MODULE, "")
    assert draft.usage.calls == 2 and draft.usage.output_tokens == 40
    assert [message["role"] for message in server.requests[1]["messages"]] == ["system", "user", "assistant", "user"]
    assert reason in server.prompts[1]


@pytest.mark.parametrize("kind", HOPELESS)
def test_unreadable_twice_is_a_problem_not_a_crash(kind):
    text, reason = HOPELESS[kind]
    with OpenAIServer([completion(text)]) as server:
        draft = team_at(server).write(make_brief())
    assert draft.source == "" and reason in draft.problem
    assert len(server.requests) == draft.usage.calls == 2


def test_a_null_content_is_an_empty_answer():
    with OpenAIServer([completion(None)]) as server:
        assert "empty" in team_at(server).write(seed_brief()).problem


def test_a_truncated_answer_is_asked_again_shorter():
    cut = completion(f"```python\n{MODULE[:300]}", finish_reason="length")
    with OpenAIServer([cut, completion(fenced(MODULE))]) as server:
        draft = team_at(server).write(seed_brief())
    assert draft.source == MODULE
    assert "cut off" in server.prompts[1] and "shorter" in server.prompts[1]


def test_the_analyst_answers():
    with OpenAIServer([completion(f"My analysis:\n{fenced(json.dumps(ANALYSIS), 'json')}")]) as server:
        analysis = team_at(server).analyze(make_brief())
    assert analysis.worth_optimizing and analysis.category == "operator_fusion"
    assert analysis.plan == "Keep the row in registers."
    assert (analysis.expected.metric, analysis.expected.direction) == ("dram_bytes", "down")
    assert analysis.principles == ("one_read_per_row",)
    assert analysis.usage.calls == 1


@pytest.mark.parametrize(
    ("change", "field", "value"),
    [
        ({"category": "Operator Fusion"}, "category", "operator_fusion"),
        ({"category": "tiling"}, "category", "tensor_tiling"),
        ({"worth_optimizing": "Yes"}, "worth_optimizing", True),
        ({"plan": ["load the row", "store it"]}, "plan", "1. load the row 2. store it"),
        ({"plan": {"step 1": "load the row", "then": ["store"]}}, "plan", "step 1: load the row; then: 1. store"),
        ({"bottleneck": {"kind": "DRAM", "evidence": {"reads": 3}}}, "bottleneck", "kind: DRAM; evidence: reads: 3"),
        ({"category": "operator_fusion (softmax into the product)"}, "category", "operator_fusion"),
        ({"by": "sweep: the tuner turns BLOCK"}, "by", "sweep"),
        ({"by": "Rewrite, no sweep"}, "by", "rewrite"),
        ({"by": "magic"}, "mended", ("\"by\": 'magic' read as rewrite",)),
        ({"by": "config", "config": {"BLOCK": "512"}}, "config", {"BLOCK": 512}),
        ({"by": "config", "config": [{"knob": "BLOCK", "value": 512}]}, "config", {"BLOCK": 512}),
        ({"by": "config", "config": {"BLOCK": 256}}, "by", "rewrite"),
        ({"by": "config", "config": {"WIDTH": 2, "BLOCK": 64}}, "mended", ("value dropped: CONFIG has no 'WIDTH'",)),
        ({"by": "config", "config": {"BLOCK": 0.5}}, "by", "rewrite"),
        ({"expected": "faster"}, "expected", None),
        ({"principles": ["one_read_per_row", "invented"]}, "principles", ("one_read_per_row",)),
        ({"principles": "one_read_per_row"}, "principles", ()),
    ],
)
def test_an_analysis_a_little_off_is_mended(change, field, value):
    assert getattr(ANALYST.read(Reply(json.dumps(ANALYSIS | change)), make_brief()), field) == value


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"worth_optimizing": "perhaps"}, "worth_optimizing"),
        ({"plan": ""}, 'no "plan"'),
        ({"category": "magic"}, '"category" is none of'),
    ],
)
def test_an_analysis_that_cannot_be_used_is_asked_again_with_the_reason(change, reason):
    with OpenAIServer([completion(json.dumps(ANALYSIS | change)), completion(json.dumps(ANALYSIS))]) as server:
        assert team_at(server).analyze(make_brief()).category == "operator_fusion"
    assert reason in server.prompts[1]


def test_a_sweep_of_no_knobs_is_the_coders_to_carry_out():
    analysis = ANALYST.read(Reply(json.dumps(ANALYSIS | {"by": "sweep"})), make_brief(stage="tensor_tiling"))
    assert (analysis.by, analysis.mended) == (
        "rewrite",
        ('"by": "sweep" where SPACE has no knob of this stage, read as rewrite',),
    )


def test_a_part_is_merged_into_the_kernel_at_hand_and_that_is_told():
    forward = "def forward(self, x):\n    return x.clone()\n"
    with OpenAIServer([completion(fenced(forward))]) as server:
        draft = team_at(server).write(make_brief())
    assert "return x.clone()" in draft.source and "copy_kernel" in draft.source and len(server.requests) == 1
    assert draft.mended == ("forward merged into the module before",)


def test_an_answer_that_took_two_questions_says_so():
    with OpenAIServer([completion("Bananas."), completion(json.dumps(DIAGNOSIS))]) as server:
        diagnosis = team_at(server).debug(make_brief(mode="repair"))
    assert diagnosis.mended == ("an answer that cannot be used: it holds no JSON object with 'critical_issue'",)


def test_half_a_character_in_an_answer_breaks_nothing():
    half = "\ud83d # half of it\n"
    with OpenAIServer([completion(half), completion(fenced(half + MODULE))]) as server:
        draft = team_at(server).write(seed_brief())
    assert "half of it" in draft.source and draft.source.encode()


def test_an_answer_in_json_is_asked_for_by_its_schema():
    with OpenAIServer([completion(json.dumps(ANALYSIS)), completion(fenced(MODULE))]) as server:
        team = team_at(server)
        team.analyze(make_brief())
        team.write(seed_brief())
    asked = server.requests[0]["response_format"]
    assert asked["type"] == "json_schema" and asked["json_schema"]["strict"] is True
    assert set(asked["json_schema"]["schema"]["required"]) >= set(ANALYSIS)
    assert "response_format" not in server.requests[1], "a module is no JSON"


@pytest.mark.parametrize("status", [400, 422])
def test_an_endpoint_without_schemas_is_asked_in_words_and_that_is_told(status, caplog):
    def step(body):
        return failure(status, "no response_format") if "response_format" in body else completion(json.dumps(DIAGNOSIS))

    with OpenAIServer([step]) as server:
        team = team_at(server)
        first, second = (team.debug(make_brief(mode="repair")) for _ in range(2))
    assert ["response_format" in body for body in server.requests] == [True, False, False], "refused once, not again"
    assert first.critical_issue == second.critical_issue == DIAGNOSIS["critical_issue"]
    (told,) = first.mended
    assert told.startswith("asked without a JSON schema") and f"HTTP {status}: no response_format" in told
    assert told in caplog.text and second.mended == ()


def test_a_schema_goes_beside_options_of_ones_own():
    own = {"top_k": 3}
    with OpenAIServer([completion(json.dumps(ANALYSIS))]) as server:
        model = load_chat_model("m", base_url=server.url)
        model.extra_body = own
        ModelTeam(model.bind(temperature=0.5)).analyze(make_brief())
        ModelTeam(model.bind(response_format={"type": "json_object"})).analyze(make_brief())
    first, second = server.requests
    assert (first["top_k"], first["temperature"], first["response_format"]["type"]) == (3, 0.5, "json_schema")
    assert second["response_format"] == {"type": "json_object"}


def test_an_answer_by_schema_that_was_cut_off_is_asked_again():
    cut = completion('{"critical_issue": "the ma', finish_reason="length")
    with OpenAIServer([cut, completion(json.dumps(DIAGNOSIS))]) as server:
        diagnosis = team_at(server).debug(make_brief(mode="repair"))
    assert "cut off" in server.prompts[1] and diagnosis.usage.calls == 2


def test_a_failure_by_schema_names_the_endpoint():
    with OpenAIServer([failure(500, "oops")]) as server, pytest.raises(InfrastructureError) as error:
        team_at(server).analyze(make_brief())
    assert "scripted-model" in str(error.value) and server.url in str(error.value)


def test_a_model_that_has_no_schemas_is_asked_in_words(tmp_path):
    prompt = tmp_path / "001-debugger.prompt.md"
    (tmp_path / "001-debugger.answer.md").write_text(json.dumps(DIAGNOSIS))
    diagnosis = ModelTeam(HandoffModel(folder=tmp_path, poll=0.01)).debug(make_brief(mode="repair"))
    assert diagnosis.critical_issue == DIAGNOSIS["critical_issue"] and prompt.exists()


def test_not_worth_optimizing_needs_no_plan():
    with OpenAIServer([completion('{"worth_optimizing": false, "root_cause": "at the floor"}')]) as server:
        analysis = team_at(server).analyze(make_brief())
    assert not analysis.worth_optimizing and analysis.root_cause == "at the floor" and analysis.category == "none"


def test_an_analyst_that_stays_unreadable_stops_the_stage_and_says_why():
    with OpenAIServer([completion("I like this kernel.")]) as server:
        analysis = team_at(server).analyze(make_brief())
    assert not analysis.worth_optimizing
    assert "no JSON object" in analysis.root_cause
    assert analysis.usage.calls == 2


def test_the_debugger_answers_in_thirty_words_at_most():
    long = {"critical_issue": "word " * 50, "modification plan": "mask. " * 50}
    with OpenAIServer([completion(json.dumps(long))]) as server:
        diagnosis = team_at(server).debug(make_brief(mode="repair"))
    assert len(diagnosis.critical_issue.split()) <= 30
    assert len(diagnosis.modification_plan.split()) <= 30
    assert len(server.requests) == 1


def test_a_debugger_that_stays_unreadable_hands_on_the_evaluators_finding():
    with OpenAIServer([completion('{"critical_issue": 3}')]) as server:
        diagnosis = team_at(server).debug(make_brief(mode="repair"))
    assert FINDING.message in diagnosis.critical_issue and FINDING.where in diagnosis.critical_issue
    assert diagnosis.modification_plan == FINDING.cure
    assert diagnosis.usage.calls == 2


def test_each_role_may_have_a_model_of_its_own():
    good = [completion(json.dumps(DIAGNOSIS))]
    with OpenAIServer(good) as first, OpenAIServer(good) as second:
        one, other = (load_chat_model(name, base_url=s.url) for name, s in (("one", first), ("other", second)))
        team = ModelTeam({"analyst": one, "coder": one, "debugger": other})
        assert team.debug(make_brief(mode="repair")).critical_issue == DIAGNOSIS["critical_issue"]
    assert (len(first.requests), len(second.requests)) == (0, 1)
    assert second.requests[0]["model"] == "other" and team.name == "one"


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (failure(429, "slow down"), "HTTP 429: slow down"),
        (failure(500, "oops"), "HTTP 500: oops"),
        (failure(503), "HTTP 503"),
        (Stall(5.0), "no answer in time"),
        (raw("<html>gateway</html>", "text/html"), "no chat completion"),
        (raw("not json"), "no chat completion"),
        (raw('{"choices": null}'), "no chat completion"),
        (raw('{"choices": []}'), "no chat completion"),
        (raw("[]"), "no chat completion"),
        (raw('{"choices":[{"index":0}]}'), "no chat completion"),
    ],
    ids=["429", "500", "503", "timeout", "html", "not json", "null choices", "no choices", "a list", "no message"],
)
@pytest.mark.parametrize("write", WRITE)
def test_a_busy_or_broken_endpoint_is_worth_another_try(step, said, write):
    with OpenAIServer([step]) as server, pytest.raises(InfrastructureError) as error:
        write(team_at(server, timeout=0.3), seed_brief())
    assert said in str(error.value) and server.url in str(error.value) and "\n" not in str(error.value)
    assert len(server.requests) == 1, "the client retries nothing"


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (failure(400, "maximum context length is 8192 tokens"), "maximum context length is 8192 tokens"),
        (failure(401, "wrong key"), "OPENAI_API_KEY"),
        (failure(404, "no such model"), "check the model's name"),
        (failure(422, "bad temperature"), "bad temperature"),
        (failure(429, "no credit", code="insufficient_quota"), "add credit"),
    ],
    ids=["400", "401", "404", "422", "quota"],
)
def test_a_refused_request_is_one_clear_line_and_never_repeated(step, said):
    with OpenAIServer([step]) as server, pytest.raises(ModelRefused) as error:
        team_at(server).write(seed_brief())
    assert said in str(error.value) and "scripted-model" in str(error.value) and "\n" not in str(error.value)
    assert len(server.requests) == 1


def test_an_endpoint_that_is_not_there_is_named():
    with OpenAIServer([completion("x")]) as server:
        url = server.url
    team = ModelTeam(load_chat_model("m", base_url=url), tries=1)
    with pytest.raises(InfrastructureError, match="check that it runs"):
        team.write(seed_brief())


def test_a_trace_shows_role_stage_attempt_and_mode_of_each_call():
    seen: list[tuple[str, list[str], dict]] = []
    from langchain_core.callbacks import BaseCallbackHandler

    class Watch(BaseCallbackHandler):
        def on_chat_model_start(self, *_, tags=None, metadata=None, name=None, **__):
            seen.append((name, tags or [], metadata or {}))

    with OpenAIServer([completion(json.dumps(ANALYSIS))]) as server:
        model = load_chat_model("m", base_url=server.url)
        model.callbacks = [Watch()]
        ModelTeam(model).analyze(make_brief())
    brief = make_brief()
    ((name, tags, metadata),) = seen
    assert set(tags) == {"egg", "analyst"}
    told = {key: metadata[key] for key in ("role", "stage", "attempt", "mode")}
    assert told == {"role": "analyst", "stage": brief.stage, "attempt": brief.attempt, "mode": brief.mode}
    assert name == f"egg analyst: {brief.mode}, attempt {brief.attempt} in {brief.stage}"


@pytest.mark.parametrize(
    ("models", "said"),
    [
        ({"coder": "openai:x"}, "no model for the analyst"),
        ({"analyst": "a", "coder": "b", "debugger": "c", "judge": "d"}, "unknown role 'judge'"),
        (3, "a int"),
        ({"analyst": 1, "coder": 1, "debugger": 1}, "a int"),
    ],
)
def test_what_cannot_be_a_team_is_refused(models, said):
    with pytest.raises(BadInput, match=said):
        ModelTeam(models)


@pytest.mark.parametrize("role", ["analyze", "debug"])
def test_a_brief_without_a_kernel_is_refused(role):
    with OpenAIServer([completion("x")]) as server, pytest.raises(BadInput, match="missing"):
        getattr(team_at(server), role)(seed_brief())

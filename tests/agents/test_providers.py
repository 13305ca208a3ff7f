"""What docs/models.md says of vLLM, DeepSeek, Ollama and Anthropic, against servers that speak as these do."""

import asyncio
import json

import pytest

from egg_graph.agents import ModelTeam, load_chat_model, requests
from egg_graph.agents.tokens import estimate_tokens
from egg_graph.evaluator import hear_progress
from egg_graph.knowledge import find_price
from egg_graph.schema import ModelRefused
from tests.agents.answers import ANALYSIS, DIAGNOSIS, MODULE, fenced
from tests.agents.briefs import make_brief, seed_brief
from tests.agents.openai_server import OpenAIServer, Response
from tests.agents.providers import ANTHROPIC, DEEPSEEK, OLLAMA, VLLM

TEXT = fenced(MODULE)
ANALYST_SAYS, DEBUGGER_SAYS = json.dumps(ANALYSIS), json.dumps(DIAGNOSIS)
NAMES = {"vLLM": VLLM, "Ollama": OLLAMA, "DeepSeek": DEEPSEEK, "Anthropic": ANTHROPIC}
EACH = pytest.mark.parametrize("provider", NAMES.values(), ids=NAMES)
WRITE = [
    pytest.param(lambda team: team.write(seed_brief()), id="write"),
    pytest.param(lambda team: asyncio.run(team.awrite(seed_brief())), id="awrite"),
]


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(requests, "FIRST_WAIT", 0.01)


@pytest.fixture
def serve(monkeypatch):
    """Start a server in a provider's place, which the environment then names as docs/models.md says."""
    servers = []

    def start(provider, *script):
        server = OpenAIServer(script).__enter__()
        servers.append(server)
        for name, value in provider.environment(server).items():
            monkeypatch.setenv(name, value)
        return server

    yield start
    for server in servers:
        server.__exit__()


def tokens(usage):
    return usage.input_tokens, usage.cached_tokens, usage.output_tokens


def heard(ask):
    """What came of it, and the requests that were told meanwhile."""
    told = []
    with hear_progress(told.append):
        answer = ask()
    return answer, [one.request for one in told if one.request]


@EACH
def test_a_provider_needs_its_address_and_its_key_alone(serve, provider):
    server = serve(provider, provider.answer(TEXT))
    draft = ModelTeam(provider.model, timeout=30).write(seed_brief())
    assert (draft.source, tokens(draft.usage), draft.usage.estimated) == (MODULE, provider.counted, 0)
    assert draft.usage.unpriced == 1, "a price holds at the provider's own host"
    (sent,), (headers,) = server.requests, server.headers
    assert server.paths == [provider.path] and sent["stream"] is True
    assert sent["model"] == provider.model.removeprefix("anthropic:")
    assert headers["authorization"] == f"Bearer {'sk-own' if provider.key else 'EMPTY'}"
    if provider is not ANTHROPIC:
        assert sent["stream_options"] == {"include_usage": True}


@EACH
def test_the_analyst_and_the_debugger_are_asked_for_json_by_its_schema(serve, provider):
    server = serve(provider, provider.answer(ANALYST_SAYS), provider.answer(DEBUGGER_SAYS))
    team = ModelTeam(provider.model)
    analysis, diagnosis = team.analyze(make_brief()), team.debug(make_brief(mode="repair"))
    assert (analysis.plan, diagnosis.critical_issue) == (ANALYSIS["plan"], DIAGNOSIS["critical_issue"])
    for answer in (analysis, diagnosis):
        assert answer.mended == () and (answer.usage.calls, *tokens(answer.usage)) == (1, *provider.counted)
    assert server.paths == [provider.path] * 2
    for sent, keys in zip(server.requests, (ANALYSIS, DIAGNOSIS), strict=True):
        schema = provider.schema_in(sent)
        assert set(schema["required"]) == set(schema["properties"]) >= set(keys) and not schema["additionalProperties"]
        assert not {"tools", "tool_choice"} & set(sent), "an answer by a tool would not be read"
        assert "JSON" in str(sent["messages"]), "asked for in words as well"
        if provider is not ANTHROPIC:
            assert sent["response_format"]["json_schema"]["strict"] is True


@EACH
def test_a_provider_that_refuses_the_schema_is_asked_in_words(serve, provider):
    def step(body):
        if provider.schema_in(body) is not None:
            return provider.error(400, provider.no_schema)
        return provider.answer(ANALYST_SAYS if "Your role: ANALYST" in json.dumps(body) else DEBUGGER_SAYS)

    server = serve(provider, step)
    team = ModelTeam(provider.model)
    analysis, diagnosis, again = team.analyze(make_brief()), *(team.debug(make_brief(mode="repair")) for _ in range(2))
    asked = [provider.schema_in(body) is not None for body in server.requests]
    assert asked == [True, False, True, False, False], "each role tries its schema once"
    assert not any({"response_format", "output_config"} & set(body) for body in server.requests[1::2])
    assert (analysis.plan, diagnosis.critical_issue) == (ANALYSIS["plan"], DIAGNOSIS["critical_issue"])
    for answer in (analysis, diagnosis):
        (told,) = answer.mended
        assert told.startswith("asked without a JSON schema") and f"HTTP 400: {provider.no_schema}" in told
        assert (answer.usage.calls, answer.usage.failed, *tokens(answer.usage)) == (2, 1, *provider.counted)
    assert again.mended == ()


NAME, URL = "check the model's name", "check the model's name and OPENAI_BASE_URL (it usually ends in /v1)"
LIMITS = "check the model's name, its context length and the parameters it accepts"
TOO_LONG = (
    "This model's maximum context length is 8192 tokens. However, your request has 14003 input tokens. "
    "Please reduce the length of the input messages."
)


@pytest.mark.parametrize(
    ("provider", "status", "said", "cure"),
    [
        pytest.param(VLLM, 404, "The model `Qwen/Qwen3-Coder-30B` does not exist.", URL, id="vLLM-model"),
        pytest.param(VLLM, 400, TOO_LONG, LIMITS, id="vLLM-context"),
        pytest.param(OLLAMA, 404, "model 'qwen2.5-coder:32b' not found", URL, id="Ollama-model"),
        pytest.param(DEEPSEEK, 400, "Model Not Exist", LIMITS, id="DeepSeek-model"),
        pytest.param(DEEPSEEK, 402, "Insufficient Balance", "add credit to the account", id="DeepSeek-credit"),
        pytest.param(ANTHROPIC, 404, "model: claude-opus-5", NAME, id="Anthropic-model"),
        pytest.param(ANTHROPIC, 400, "prompt is too long: 215000 tokens > 200000", LIMITS, id="Anthropic-context"),
    ],
)
def test_a_refusal_is_one_line_with_the_providers_words_and_the_cure(serve, provider, status, said, cure):
    server = serve(provider, provider.error(status, said))
    name, url = provider.model.removeprefix("anthropic:"), provider.environment(server)[provider.address]
    team = ModelTeam(provider.model)
    for ask in (lambda: team.write(seed_brief()), lambda: team.debug(make_brief(mode="repair"))):
        with pytest.raises(ModelRefused) as error:
            ask()
        assert str(error.value) == f"model {name} at {url}: HTTP {status}: {said}; {cure}"


def test_an_address_without_its_v1_is_told_as_one(serve, monkeypatch):
    server = serve(OLLAMA, Response(404, b"404 page not found", {"Content-Type": "text/plain"}))
    monkeypatch.setenv("OPENAI_BASE_URL", server.url.removesuffix("/v1"))
    with pytest.raises(ModelRefused, match=r"HTTP 404: .*OPENAI_BASE_URL \(it usually ends in /v1\)$"):
        ModelTeam(OLLAMA.model).write(seed_brief())
    assert server.paths == ["/chat/completions"]


@pytest.mark.parametrize("write", WRITE)
def test_an_overloaded_anthropic_is_asked_again(serve, write):
    busy = ANTHROPIC.error(529, "Overloaded")
    asked_to_wait = Response(529, busy.body, {**busy.headers, "Retry-After": "0.02"})
    server = serve(ANTHROPIC, asked_to_wait, busy, ANTHROPIC.answer(TEXT))
    draft, calls = heard(lambda: write(ModelTeam(ANTHROPIC.model)))
    assert draft.source == MODULE and server.paths == [ANTHROPIC.path] * 3
    assert [(call.outcome, call.again_in) for call in calls] == [("failed", 0.02), ("failed", 0.03), ("answered", None)]
    assert all("HTTP 529: Overloaded; it is busy or broken" in call.reason for call in calls[:2])
    assert (draft.usage.calls, draft.usage.failed) == (3, 2)


@pytest.mark.parametrize("write", WRITE)
@pytest.mark.parametrize("provider", [VLLM, ANTHROPIC], ids=["vLLM", "Anthropic"])
def test_an_error_in_the_middle_of_an_answer_is_a_failed_request_that_is_booked_and_sent_again(serve, provider, write):
    server = serve(provider, provider.broken(TEXT[:200], "out of capacity"), provider.answer(TEXT))
    draft, (broken, answered) = heard(lambda: write(ModelTeam(provider.model)))
    assert draft.source == MODULE and server.paths == [provider.path] * 2
    assert (broken.outcome, broken.answer, broken.again_in) == ("failed", TEXT[:200], 0.01)
    assert broken.reason.endswith(": its answer broke off: out of capacity; it is busy or broken, try again later")
    assert broken.usage.output_tokens == estimate_tokens(TEXT[:200]) and broken.usage.input_tokens > 1000
    assert (broken.usage.failed, broken.usage.estimated) == (1, 1) and draft.usage == broken.usage + answered.usage


def test_prices_hold_at_their_host_and_for_dated_names():
    assert find_price("gpt-5-2025-08-07", "api.openai.com").input == 1.25
    assert find_price("claude-haiku-4-5-20251001", "api.anthropic.com").output == 5.0
    assert find_price("gpt-5", "localhost") is None and find_price("gpt-5-nano", "api.openai.com") is None
    model = load_chat_model("gpt-5", api_key="x")
    assert ModelTeam(model).prices()["coder"][1].model == "gpt-5"

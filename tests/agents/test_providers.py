"""What docs/models.md says of vLLM, DeepSeek, Ollama and Anthropic, against servers that speak as these do."""

import json

import pytest

from egg_graph.agents import ModelTeam, load_chat_model
from egg_graph.knowledge import find_price
from tests.agents.answers import MODULE, fenced
from tests.agents.briefs import seed_brief
from tests.agents.openai_server import OpenAIServer, Response, Trickle, raw

TEXT = fenced(MODULE)


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def events(*data: dict, named: bool = False) -> Response:
    """Server-sent events, with the names that Anthropic gives them."""
    lines = [(f"event: {one['type']}\n" if named else "") + f"data: {json.dumps(one)}\n\n" for one in data]
    return raw("".join(lines) + ("" if named else "data: [DONE]\n\n"), "text/event-stream")


def chunk(**more) -> dict:
    head = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": []}
    return head | more


def delta(finish_reason=None, **said) -> dict:
    return chunk(choices=[{"index": 0, "delta": said, "finish_reason": finish_reason}])


@pytest.mark.parametrize("name", ["Qwen/Qwen3-Coder-30B", "qwen2.5-coder:32b"], ids=["vLLM", "Ollama"])
def test_a_server_of_ones_own_needs_its_address_alone(monkeypatch, name):
    with OpenAIServer([Trickle((TEXT,), pause=0.0, thoughts=("hm", "so"))]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        draft = ModelTeam(name).write(seed_brief())
    assert (draft.source, draft.usage.input_tokens, draft.usage.estimated, draft.usage.unpriced) == (MODULE, 100, 0, 1)
    (sent,), (headers,) = server.requests, server.headers
    assert sent["model"] == name and sent["stream_options"] == {"include_usage": True} and sent["stream"] is True
    assert headers["authorization"] == "Bearer EMPTY"


def test_deepseek_keeps_alive_thinks_and_tells_what_its_cache_held(monkeypatch):
    usage = {"prompt_tokens": 900, "completion_tokens": 50, "total_tokens": 950, "prompt_cache_hit_tokens": 640}
    usage |= {"prompt_cache_miss_tokens": 260, "prompt_tokens_details": {"cached_tokens": 640}}
    thought, said = delta(reasoning_content="hm", content=None), delta(reasoning_content=None, content=TEXT)
    answer = events(thought, said, delta("stop", content=""), chunk(usage=usage))
    with OpenAIServer([Response(200, b": keep-alive\n\n" * 3 + answer.body, answer.headers)]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-deep")
        draft = ModelTeam("deepseek-reasoner").write(seed_brief())
    assert draft.source == MODULE
    assert (draft.usage.input_tokens, draft.usage.cached_tokens, draft.usage.output_tokens) == (900, 640, 50)
    assert server.headers[0]["authorization"] == "Bearer sk-deep"


def test_anthropic_streams_messages_with_its_own_key(monkeypatch):
    usage = {"input_tokens": 200, "cache_read_input_tokens": 800, "cache_creation_input_tokens": 0, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-5", "content": []}
    answer = events(
        {"type": "message_start", "message": message | {"stop_reason": None, "stop_sequence": None, "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "ping"},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": TEXT[:90]}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": TEXT[90:]}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage | {"output_tokens": 70}},
        {"type": "message_stop"},
        named=True,
    )
    with OpenAIServer([answer]) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url.removesuffix("/v1"))
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant")
        draft = ModelTeam("anthropic:claude-opus-5", timeout=30).write(seed_brief())
    assert draft.source == MODULE
    assert (draft.usage.input_tokens, draft.usage.cached_tokens, draft.usage.output_tokens) == (1000, 800, 70)
    assert draft.usage.unpriced == 1, "the price of that name holds at Anthropic's own host"
    assert server.headers[0]["authorization"] == "Bearer sk-ant" and server.requests[0]["stream"] is True


def test_prices_hold_at_their_host_and_for_dated_names():
    assert find_price("gpt-5-2025-08-07", "api.openai.com").input == 1.25
    assert find_price("claude-haiku-4-5-20251001", "api.anthropic.com").output == 5.0
    assert find_price("gpt-5", "localhost") is None and find_price("gpt-5-nano", "api.openai.com") is None
    model = load_chat_model("gpt-5", api_key="x")
    assert ModelTeam(model).prices()["coder"][1].model == "gpt-5"

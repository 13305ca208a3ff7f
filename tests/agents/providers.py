"""How vLLM, Ollama, DeepSeek and Anthropic speak: what they are asked at, and how they stream, refuse and break off."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.agents.openai_server import OpenAIServer, Response, raw

SHARED_USAGE = {"prompt_tokens": 900, "completion_tokens": 50, "total_tokens": 950}


@dataclass(frozen=True)
class Provider:
    """One provider, as its documentation describes it.

    Attributes:
        path: of the requests that it answers.
        address: environment variable that names its endpoint.
        key: environment variable with its key; empty where it needs none.
        answer: streams a text whole.
        error: an error, by its HTTP status and its message.
        no_schema: its words when it refuses a schema.
        counted: tokens in, of these from its cache, and out, as `answer` tells them.
        broken: streams the beginning of a text, and then tells an error in the stream; None where it does not.
    """

    model: str
    path: str
    address: str
    key: str
    answer: Callable[[str], Response]
    error: Callable[[int, str], Response]
    no_schema: str
    counted: tuple[int, int, int]
    broken: Callable[[str, str], Response] | None = None

    def environment(self, server: OpenAIServer) -> dict[str, str]:
        """What a user sets, with the server in the provider's place."""
        url = server.url if self.path.startswith("/v1/chat") else server.url.removesuffix("/v1")
        return {self.address: url} | ({self.key: "sk-own"} if self.key else {})

    def schema_in(self, body: dict[str, Any]) -> dict[str, Any] | None:
        """The schema that a request asks for; None where it asks for none."""
        asked = body.get("output_config", {}).get("format") or body.get("response_format")
        if asked is None:
            return None
        assert asked["type"] == "json_schema"
        return asked["schema"] if "schema" in asked else asked["json_schema"]["schema"]


def events(*data: dict, named: bool = False) -> Response:
    """Server-sent events, with the names that Anthropic gives them."""
    lines = [(f"event: {one['type']}\n" if named else "") + f"data: {json.dumps(one)}\n\n" for one in data]
    return raw("".join(lines) + ("" if named else "data: [DONE]\n\n"), "text/event-stream")


def chunk(**more: Any) -> dict:
    head = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": []}
    return head | more


def delta(finish_reason: str | None = None, **said: Any) -> dict:
    return chunk(choices=[{"index": 0, "delta": said, "finish_reason": finish_reason}])


def body_of(status: int, **error: Any) -> Response:
    return Response(status, json.dumps({"error": error}).encode())


def vllm_says(text: str) -> list[dict]:
    return [delta(role="assistant", content=""), delta(reasoning_content="hm"), delta(content=text)]


def vllm_answers(text: str) -> Response:
    return events(*vllm_says(text), delta("stop", content=""), chunk(usage=SHARED_USAGE))


def vllm_error(status: int, message: str) -> dict:
    kind = {400: "BadRequestError", 404: "NotFoundError"}.get(status, "InternalServerError")
    return {"message": message, "type": kind, "param": None, "code": status}


def ollama_answers(text: str) -> Response:
    thought = delta(role="assistant", content="", reasoning="hm")
    said = [thought, delta(role="assistant", content=text), delta("stop", role="assistant", content="")]
    return events(*(one | {"system_fingerprint": "fp_ollama"} for one in [*said, chunk(usage=SHARED_USAGE)]))


def ollama_refuses(status: int, message: str) -> Response:
    kind = {400: "invalid_request_error", 404: "not_found_error"}.get(status, "api_error")
    return body_of(status, message=message, type=kind, param=None, code=None)


def deepseek_answers(text: str) -> Response:
    usage = SHARED_USAGE | {"prompt_cache_hit_tokens": 640, "prompt_cache_miss_tokens": 260}
    usage |= {"prompt_tokens_details": {"cached_tokens": 640}}
    thought, said = delta(reasoning_content="hm", content=None), delta(reasoning_content=None, content=text)
    answer = events(thought, said, delta("stop", content=""), chunk(usage=usage))
    return Response(200, b": keep-alive\n\n" * 3 + answer.body, answer.headers)


def deepseek_refuses(status: int, message: str) -> Response:
    return body_of(status, message=message, type="invalid_request_error", param=None, code="invalid_request_error")


ANTHROPIC_USAGE = {"input_tokens": 200, "cache_read_input_tokens": 800, "cache_creation_input_tokens": 0}


def anthropic_says(text: str) -> list[dict]:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-5", "content": []}
    message |= {"stop_reason": None, "stop_sequence": None, "usage": ANTHROPIC_USAGE | {"output_tokens": 1}}
    return [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "ping"},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text[:90]}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text[90:]}},
    ]


def anthropic_answers(text: str) -> Response:
    ended = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    ended |= {"usage": ANTHROPIC_USAGE | {"output_tokens": 70}}
    stopped = {"type": "content_block_stop", "index": 0}
    return events(*anthropic_says(text), stopped, ended, {"type": "message_stop"}, named=True)


def anthropic_error(status: int, message: str) -> dict:
    kinds = {400: "invalid_request_error", 404: "not_found_error", 529: "overloaded_error"}
    return {"type": "error", "error": {"type": kinds[status], "message": message}, "request_id": "req_1"}


VLLM = Provider(
    model="Qwen/Qwen3-Coder-30B",
    path="/v1/chat/completions",
    address="OPENAI_BASE_URL",
    key="",
    answer=vllm_answers,
    broken=lambda text, why: events(*vllm_says(text), {"error": vllm_error(500, why)}),
    error=lambda status, message: body_of(status, **vllm_error(status, message)),
    no_schema="The provided JSON schema contains features not supported by xgrammar.",
    counted=(900, 0, 50),
)
OLLAMA = Provider(
    model="qwen2.5-coder:32b",
    path="/v1/chat/completions",
    address="OPENAI_BASE_URL",
    key="",
    answer=ollama_answers,
    error=ollama_refuses,
    no_schema="invalid JSON schema in format",
    counted=(900, 0, 50),
)
DEEPSEEK = Provider(
    model="deepseek-reasoner",
    path="/v1/chat/completions",
    address="OPENAI_BASE_URL",
    key="OPENAI_API_KEY",
    answer=deepseek_answers,
    error=deepseek_refuses,
    no_schema="This response_format type is unavailable now",
    counted=(900, 640, 50),
)
ANTHROPIC = Provider(
    model="anthropic:claude-opus-5",
    path="/v1/messages",
    address="ANTHROPIC_BASE_URL",
    key="ANTHROPIC_API_KEY",
    answer=anthropic_answers,
    broken=lambda text, why: events(*anthropic_says(text), anthropic_error(529, why), named=True),
    error=lambda status, message: Response(status, json.dumps(anthropic_error(status, message)).encode()),
    no_schema="output_config.format: Extra inputs are not permitted",
    counted=(1000, 800, 70),
)

"""A real OpenAI-compatible HTTP server on localhost that plays a script, for tests that drive a real ChatOpenAI.

    with OpenAIServer([completion("hello"), failure(429), Stall(2.0)]) as server:
        model = load_chat_model("scripted", base_url=server.url)

Each request takes the next step of the script; when the script is over, its last step is played again. A step may
also be a function from the request's JSON body to a step, to answer by what is asked.
"""

import json
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Response:
    """One HTTP response."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})


@dataclass(frozen=True)
class Stall:
    """Silence for so many seconds, then the connection closes."""

    seconds: float


@dataclass(frozen=True)
class Trickle:
    """A completion that comes in pieces, with a pause before each; without its end, the connection then stays silent.

    A request that is not streamed gets the whole after all the pauses. `thoughts` come first, as `reasoning_content`.
    """

    pieces: tuple[str, ...]
    pause: float
    ends: bool = True
    thoughts: tuple[str, ...] = ()
    usage: bool = True

    @property
    def whole(self) -> "Response":
        return completion("".join(self.pieces))


Step = Response | Stall | Trickle | Callable[[dict[str, Any]], "Response | Stall | Trickle"]
SILENCE = 5.0
"""Seconds that a `Trickle` without an end stays silent."""


def completion(
    text: str | None, *, finish_reason: str = "stop", input_tokens: int = 100, output_tokens: int = 20
) -> Response:
    """A chat completion with one choice and its usage."""
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "scripted",
        "choices": [
            {"index": 0, "finish_reason": finish_reason, "message": {"role": "assistant", "content": text}},
        ],
        "usage": {
            "prompt_tokens": input_tokens,
            "completion_tokens": output_tokens,
            "total_tokens": input_tokens + output_tokens,
        },
    }
    return Response(200, json.dumps(body).encode())


def failure(
    status: int, message: str = "scripted failure", code: str | None = None, retry_after: str | None = None
) -> Response:
    """An error in OpenAI's form."""
    body = {"error": {"message": message, "type": "scripted", "param": None, "code": code}}
    headers = {"Content-Type": "application/json"} | ({"Retry-After": retry_after} if retry_after else {})
    return Response(status, json.dumps(body).encode(), headers)


def raw(body: str, content_type: str = "application/json") -> Response:
    """Status 200 with any body at all."""
    return Response(200, body.encode(), {"Content-Type": content_type})


def streamed(completed: Response) -> Response:
    """The same completion as server-sent events: one chunk of text, the finish, the usage."""
    body = json.loads(completed.body)
    choice = body["choices"][0]
    head = {"id": body["id"], "object": "chat.completion.chunk", "created": 1, "model": body["model"]}
    text = {"role": "assistant", "content": choice["message"]["content"] or ""}
    chunks = [
        {**head, "choices": [{"index": 0, "delta": text, "finish_reason": None}]},
        {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]},
        {**head, "choices": [], "usage": body["usage"]},
    ]
    events = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
    return Response(completed.status, events.encode(), {"Content-Type": "text/event-stream"})


def chunks(step: Trickle, tell_usage: bool) -> list[str]:
    """The server-sent events of a `Trickle`."""
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "scripted"}
    deltas = [{"content": "", "reasoning_content": text} for text in step.thoughts]
    deltas += [{"role": "assistant", "content": text} for text in step.pieces]
    sent = [{**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    if step.ends:
        sent.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        if step.usage and tell_usage:
            sent.append({**head, "choices": [], "usage": json.loads(step.whole.body)["usage"]})
    return [f"data: {json.dumps(chunk)}\n\n" for chunk in sent] + (["data: [DONE]\n\n"] if step.ends else [])


class OpenAIServer:
    """Serves the script in a thread; `requests`, `headers` and `paths` hold those received, in order."""

    def __init__(self, script: Sequence[Step]) -> None:
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self._script = list(script)
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def prompts(self) -> list[str]:
        """The last message of every request."""
        return [request["messages"][-1]["content"] for request in self.requests]

    def __enter__(self) -> "OpenAIServer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def next_step(self, body: dict[str, Any]) -> Response | Stall | Trickle:
        """The step that answers this request."""
        with self._lock:
            step = self._script[min(len(self.requests), len(self._script) - 1)]
            self.requests.append(body)
        return step(body) if callable(step) else step

    def stall(self, seconds: float) -> None:
        """Wait, but not longer than the server lives."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not self._closing.wait(0.02):
            pass


def _handler(server: OpenAIServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            server.headers.append({name.lower(): value for name, value in self.headers.items()})
            server.paths.append(self.path)
            step = server.next_step(body)
            if isinstance(step, Stall):
                server.stall(step.seconds)
                self.close_connection = True
                return
            if isinstance(step, Trickle):
                if body.get("stream"):
                    self._trickle(step, bool((body.get("stream_options") or {}).get("include_usage")))
                    return
                server.stall(step.pause * len(step.pieces))
                step = step.whole
            if (
                body.get("stream")
                and step.status == 200
                and step.body.startswith(b"{")
                and b'"choices": [{' in step.body
            ):
                step = streamed(step)
            self.send_response(step.status)
            for name, value in step.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(step.body)))
            self.end_headers()
            self.wfile.write(step.body)

        def _trickle(self, step: Trickle, tell_usage: bool) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            with suppress(ConnectionError):
                for chunk in chunks(step, tell_usage):
                    server.stall(step.pause)
                    self.wfile.write(chunk.encode())
                    self.wfile.flush()
            if not step.ends:
                server.stall(SILENCE)
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    return Handler

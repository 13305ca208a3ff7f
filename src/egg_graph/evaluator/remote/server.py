"""The queue over HTTP, for whoever has the token.

PUT    /v1/questions/<key>                  asks; the body is the JSON of a `Question`
GET    /v1/questions/<key>?after=&wait=     200 and the JSON of the `Answer`, or 202 and what is being done
DELETE /v1/questions/<key>                  the caller waits no longer

A caller names itself in the header `Egg-Caller`. What is wrong is one line, as `{"detail": "..."}`.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Header, HTTPException, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

from egg_graph.calls import in_thread
from egg_graph.evaluator.remote.judge_queue import Full, JudgeQueue
from egg_graph.evaluator.remote.questions import KEY, QUESTION_BYTES, Answer, read_question
from egg_graph.schema import BadInput, InfrastructureError

LONGEST_WAIT = 30.0
"""Most seconds that one request waits for news."""
TOKEN_LETTERS = 16
"""Fewest letters of a token."""
HOUR = 3600.0
"""Seconds between two looks for old answers."""

Key = Annotated[str, Path(pattern=f"^{KEY.pattern}$")]
Caller = Annotated[str, Header(alias="Egg-Caller", min_length=1, max_length=64)]


def build_server(make_queue: Callable[[], JudgeQueue], token: str, *, keep_days: float = 30.0) -> FastAPI:
    """Build the server. It serves nothing but questions and answers, and reads and writes the queue's folder alone.

    Args:
        make_queue: makes the queue, in the server's event loop.
        token: what each request must carry, as `Authorization: Bearer <token>`.
        keep_days: days after which an answer is deleted.

    Raises:
        BadInput: if the token is short enough to be guessed.
    """
    if len(token) < TOKEN_LETTERS:
        raise BadInput(
            f"the token has {len(token)} letters; give {TOKEN_LETTERS} or more, such as: openssl rand -hex 32"
        )

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        queue = app.state.queue = make_queue()
        async with queue.open():
            await queue.take_in()
            pruning = asyncio.create_task(_prune(queue, keep_days))
            yield
            pruning.cancel()

    app = FastAPI(title="egg-graph", lifespan=life, openapi_url=None, docs_url=None, redoc_url=None)
    admitted = [Depends(_guard(token))]
    path = "/v1/questions/{key}"
    app.add_api_route(path, _ask, methods=["PUT"], dependencies=admitted, response_class=Response)
    app.add_api_route(path, _hear, methods=["GET"], dependencies=admitted, response_class=Response)
    app.add_api_route(path, _withdraw, methods=["DELETE"], dependencies=admitted, response_class=Response)
    app.add_exception_handler(RequestValidationError, _one_line)
    return app


def _guard(token: str) -> Callable[..., None]:
    """What lets only those in who carry the token; it takes as long for every wrong one."""
    expected = hashlib.sha256(token.encode()).digest()

    def check(authorization: Annotated[str, Header()] = "") -> None:
        kind, _, given = authorization.partition(" ")
        right = hmac.compare_digest(hashlib.sha256(given.encode()).digest(), expected)
        if kind.lower() != "bearer" or not right:
            raise HTTPException(401, "wrong token, or none", headers={"WWW-Authenticate": "Bearer"})

    return check


async def _ask(key: Key, caller: Caller, request: Request) -> Response:
    try:
        question = read_question(await _body(request))
    except BadInput as error:
        raise HTTPException(400, str(error)) from error
    if question.key != key:
        raise HTTPException(400, "the key is not the question's; see that both sides have the same version")
    try:
        await _queue(request).ask(question, caller)
    except Full as error:
        raise HTTPException(429, str(error)) from error
    except InfrastructureError as error:
        raise HTTPException(503, str(error)) from error
    return Response(status_code=202)


async def _hear(
    key: Key,
    caller: Caller,
    request: Request,
    after: Annotated[int, Query(ge=0)] = 0,
    wait: Annotated[float, Query(ge=0, le=LONGEST_WAIT)] = 0.0,
) -> Response:
    try:
        heard = await _queue(request).hear(key, caller, after, wait)
    except KeyError as error:
        raise HTTPException(404, "nobody asks that question") from error
    status = 200 if isinstance(heard, Answer) else 202
    return Response(heard.model_dump_json(), status_code=status, media_type="application/json")


async def _withdraw(key: Key, caller: Caller, request: Request) -> Response:
    await _queue(request).withdraw(key, caller)
    return Response(status_code=204)


def _queue(request: Request) -> JudgeQueue:
    queue: JudgeQueue = request.app.state.queue
    return queue


async def _body(request: Request) -> bytes:
    """The body, as long as it is no larger than a question may be."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > QUESTION_BYTES:
            raise HTTPException(413, f"the question has more than {QUESTION_BYTES} bytes")
    return bytes(body)


async def _one_line(request: Request, error: Any) -> JSONResponse:
    """A request that has not the right form."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return JSONResponse({"detail": f"{where}: {first['msg']}"[:300]}, status_code=400)


async def _prune(queue: JudgeQueue, days: float) -> None:
    """Delete old answers from time to time."""
    while True:
        with suppress(OSError):  # it will be tried again, and what cannot be deleted is told where it is written
            await in_thread(queue.spool.prune, days)
        await asyncio.sleep(HOUR)

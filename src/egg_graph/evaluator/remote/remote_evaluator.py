"""An evaluator behind a URL: the client of `egg-graph serve`."""

from __future__ import annotations

import asyncio
import os
import secrets
import ssl
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import ValidationError

from egg_graph.evaluator.progress import report_progress
from egg_graph.evaluator.remote.asking_evaluator import AskingEvaluator
from egg_graph.evaluator.remote.questions import Answer, News, Question, read_answer
from egg_graph.schema import BadInput, InfrastructureError

if TYPE_CHECKING:
    import httpx

TOKEN_VARIABLE = "EGG_GRAPH_TOKEN"
WAIT_SECONDS = 20.0
"""How long one request waits for news."""
GOODBYE_SECONDS = 2.0
"""Longest that a cancelled call takes to say so."""
PAUSES = (0.2, 5.0)
"""Shortest and longest pause before a request is made again [s]."""
BUSY = frozenset({429, 502, 503, 504})
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class RemoteEvaluator(AskingEvaluator):
    """Has candidates judged by `egg-graph serve` on another machine.

    The server keeps what is asked and what it answers: if either side or the network fails, the call goes on when they
    are back, and nothing that was judged is judged again. Whether it timed something yesterday or a minute ago, equal
    questions have one answer there; another `label` gets a new one.

    Args:
        url: where the server listens, such as `http://127.0.0.1:8642`.
        token: the server's token; None for the one in the variable `EGG_GRAPH_TOKEN`.
        label: evaluators with another label get measurements of their own.
        patience: seconds to wait for a server that was reached before and is not now, or has too much to do.

    Raises:
        BadInput: if the URL or the token cannot be one.
    """

    def __init__(self, url: str, *, token: str | None = None, label: str = "", patience: float = 300.0) -> None:
        super().__init__(label)
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
            raise BadInput(f"evaluator {url!r}: give the server's address, such as http://127.0.0.1:8642")
        token = token if token is not None else os.environ.get(TOKEN_VARIABLE, "")
        if not token or not token.isascii() or not token.isprintable():
            raise BadInput(
                f"evaluator {url}: set {TOKEN_VARIABLE} (token=) to the token that the server was started with"
            )
        self.url = url.rstrip("/")
        self._token = token
        self._patience = patience
        self._reached = False
        self._near = parts.hostname in LOOPBACK
        self._tls = ssl.create_default_context() if parts.scheme == "https" else False

    async def ask(self, question: Question) -> Answer:
        """Ask, and wait for the answer, telling what the judge reports. If it is cancelled, the question is taken back.

        Raises:
            BadInput: if the server refuses the token or the question.
            InfrastructureError: if the server cannot be reached, or its answer cannot be read.
        """
        path = f"/v1/questions/{question.key}"
        async with self._client() as client:
            try:
                return await self._answer(client, path, question)
            except asyncio.CancelledError:
                import httpx

                with suppress(httpx.HTTPError, TimeoutError):
                    await asyncio.wait_for(client.delete(path), GOODBYE_SECONDS)
                raise

    async def _answer(self, client: httpx.AsyncClient, path: str, question: Question) -> Answer:
        body, seen, asked = question.model_dump_json().encode(), 0, False
        while True:
            if not asked:
                self._expect(await self._send(client, "PUT", path, content=body), 202)
                asked, seen = True, 0
            response = await self._send(client, "GET", path, params={"after": seen, "wait": WAIT_SECONDS})
            if response.status_code == 200:
                return read_answer(response.content, question, self.url)
            if response.status_code == 404:  # the server's folder was emptied, or somebody took the question back
                asked = False
                await asyncio.sleep(PAUSES[0])
                continue
            self._expect(response, 202)
            seen = self._tell(response.content)

    def _client(self) -> httpx.AsyncClient:
        try:
            import httpx
        except ImportError as error:
            raise BadInput("RemoteEvaluator needs httpx: pip install httpx") from error
        return httpx.AsyncClient(
            base_url=self.url,
            headers={"Authorization": f"Bearer {self._token}", "Egg-Caller": secrets.token_hex(16)},
            timeout=httpx.Timeout(2 * WAIT_SECONDS, connect=10.0),
            verify=self._tls,
            trust_env=not self._near,
        )

    async def _send(self, client: httpx.AsyncClient, method: str, path: str, **options: Any) -> httpx.Response:
        """Make one request, again and again while the server cannot take it.

        Raises:
            InfrastructureError: if that takes longer than `patience`, or no connection was ever made.
        """
        import httpx

        began, (pause, longest) = time.monotonic(), PAUSES
        while True:
            try:
                response = await client.request(method, path, **options)
                self._reached = True
                if response.status_code not in BUSY:
                    return response
                fault = _said(response)
            except httpx.TransportError as error:
                fault = f"{type(error).__name__}: {error}".rstrip(": ")
                if isinstance(error, httpx.ConnectError) and not self._reached:
                    raise InfrastructureError(
                        f"{self.url} cannot be reached ({fault}); see that egg-graph serve runs there"
                    ) from error
            if time.monotonic() - began + pause > self._patience:
                raise InfrastructureError(
                    f"{self.url} took no request for {self._patience:g} s ({fault}); see that egg-graph serve runs"
                )
            report_progress(f"waits for {self.url}: {fault}")
            await asyncio.sleep(pause)
            pause = min(2 * pause, longest)

    def _expect(self, response: httpx.Response, status: int) -> None:
        """Raise what any other status means."""
        if response.status_code == status:
            return
        said = f"{self.url}: {_said(response)}"
        if response.status_code == 401:
            raise BadInput(f"{said}; set {TOKEN_VARIABLE} (token=) to the token that the server was started with")
        if response.status_code in (400, 413):
            raise BadInput(said)
        raise InfrastructureError(f"{said}; see that egg-graph serve of the same version runs there")

    def _tell(self, text: bytes) -> int:
        """Report what the judge reported; return how many reports were heard by now."""
        try:
            news = News.model_validate_json(text)
        except ValidationError as error:
            raise InfrastructureError(f"{self.url}: news that cannot be read; is it egg-graph serve?") from error
        for report in news.reports:
            report_progress(report.doing, number=report.number, trial=report.trial)
        return news.seen


def _said(response: httpx.Response) -> str:
    """The line that a server says with an error."""
    try:
        detail = response.json()["detail"]
    except (ValueError, KeyError, TypeError):
        detail = response.reason_phrase
    return f"HTTP {response.status_code}: {' '.join(str(detail).split())[:300]}"

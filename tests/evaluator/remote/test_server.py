"""`egg-graph serve`: killed and started again it loses nothing; it lets nobody in who has no token."""

import asyncio
import json
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import httpx
import pytest

from egg_graph import BadInput, Context, InfrastructureError, build_egg_graph
from egg_graph.evaluator import RemoteEvaluator, hear_progress
from egg_graph.evaluator.cancellation import this_call
from egg_graph.evaluator.pool import Pool
from egg_graph.evaluator.remote.judge_queue import JudgeQueue
from egg_graph.evaluator.remote.questions import QUESTION_BYTES, Question
from egg_graph.evaluator.remote.server import build_server
from egg_graph.evaluator.remote.spool import Spool
from tests.evaluator.remote.commands import TOKEN, free_port, lines, listens, started, until
from tests.evaluator.remote.host import GPU, ScriptedHost, scripted_pool
from tests.graph.scripted import REFERENCE, ScriptedTeam, kernel, tunable


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log"


def test_a_killed_server_goes_on_where_it_was_and_no_answer_is_paid_twice(tmp_path, log, task, candidate):
    port = free_port()
    words = ("serve", "--port", port, "--folder", tmp_path / "judged", "--workers", 2)
    heard = []
    remote = RemoteEvaluator(f"http://127.0.0.1:{port}", token=TOKEN, patience=60)
    with started(log, *words, end=signal.SIGKILL) as server, hear_progress(lambda p: heard.append(p.doing)):
        until(lambda: listens(port), server)
        assert remote.environment() == GPU, "the environment is the laptop's"
        assert remote.baseline(task).task == task.digest
        assert "times the reference" in heard, "what the judge reports is not told"
        first = remote.evaluate(task, candidate("ok"), stage="tensor_tiling")
        assert first.environment.gpu == "NVIDIA H100 80GB HBM3"
        waiting = ThreadPoolExecutor(1).submit(remote.evaluate, task, candidate("gated"))
        until(lambda: f"began {candidate('gated').id}" in lines(log), server)
    log.with_name("log.open").touch()
    with started(log, *words, end=signal.SIGTERM) as server:
        assert waiting.result(60).status == "correct", "the call did not outlive the server"
        again = RemoteEvaluator(remote.url, token=TOKEN)
        assert (
            again.evaluate(task, candidate("ok", author="another", plan="other words"), stage="tensor_tiling") == first
        )
        assert again.baseline(task) and lines(log).count("baseline") == 1
        assert lines(log).count(candidate("ok").id) == 1, "judged twice"
        assert lines(log).count(f"began {candidate('gated').id}") == 2, "what was broken off was not judged again"
        fresh = RemoteEvaluator(remote.url, token=TOKEN, label="once more")
        fresh.evaluate(task, candidate("ok"), stage="tensor_tiling")
        assert lines(log).count(candidate("ok").id) == 2, "a label of its own asks for a measurement of its own"

        team = ScriptedTeam([tunable("timed", 9, "algorithmic_structure", [9, 7]), kernel("timed", 5)], [True, False])
        graph = build_egg_graph(team=team, evaluator=remote, principles=())
        result = graph.invoke({"reference": REFERENCE}, context=Context(stages=("algorithmic_structure",)))
        assert result["task"].target.key == "h100", "auto is not the GPU that judges"
        assert result["status"] == "faster" and result["evaluation"].environment.driver == "580.159"
        with pytest.raises(BadInput, match="wrong token, or none; set EGG_GRAPH_TOKEN"):
            RemoteEvaluator(remote.url, token="x" * 32).environment()
    said, complaint = server.said
    assert f"http://127.0.0.1:{port} judges on" in said and f"evaluate relu {candidate('gated').id}: correct" in said
    assert "stopped; what was asked and not answered is judged when" in said.splitlines()[-1]
    assert complaint == "" and server.returncode == 0


@asynccontextmanager
async def serving(folder, evaluator, judge="host", **options):
    """The application without a socket: an HTTP client before it."""
    app = build_server(lambda: JudgeQueue(Spool(folder, judge), evaluator, **options), TOKEN)
    transport = httpx.ASGITransport(app)
    headers = {"Authorization": f"Bearer {TOKEN}", "Egg-Caller": "me"}
    client = httpx.AsyncClient(transport=transport, base_url="http://judge", headers=headers)
    async with app.router.lifespan_context(app), client:
        yield client


def through(client, **options):
    """A `RemoteEvaluator` whose requests that client makes."""
    remote = RemoteEvaluator("http://judge", token=TOKEN, **options)

    @asynccontextmanager
    async def same():
        yield client

    remote._client = same
    return remote


def test_requests_that_are_wrong_are_refused_in_one_line_and_run_nothing(tmp_path, log, task, candidate):
    question = Question(kind="evaluate", task=task, candidates=(candidate("ok"),))
    good, body = f"/v1/questions/{question.key}", question.model_dump_json()
    other = json.dumps({**json.loads(body), "format": 2})
    steals = json.dumps({**json.loads(body), "reference_path": "/etc/passwd"})
    wrong = [
        (401, "PUT", good, {"content": body, "headers": {"Authorization": ""}}),
        (401, "PUT", good, {"content": body, "headers": {"Authorization": f"Basic {TOKEN}"}}),
        (401, "GET", good, {"headers": {"Authorization": "Bearer é".encode()}}),
        (401, "DELETE", good, {"headers": {"Authorization": f"Bearer {TOKEN}x"}}),
        (400, "PUT", good, {"content": "{"}),
        (400, "PUT", good, {"content": other}),
        (400, "PUT", good, {"content": steals}),
        (400, "PUT", good, {"content": b"[" * 100_000}),
        (400, "PUT", f"/v1/questions/{'0' * 64}", {"content": body}),
        (400, "PUT", "/v1/questions/..%2fanswers", {"content": body}),
        (400, "PUT", good, {"content": body, "headers": {"Egg-Caller": ""}}),
        (400, "GET", good, {"params": {"wait": 1e9}}),
        (413, "PUT", good, {"content": b" " * (QUESTION_BYTES + 1)}),
        (404, "GET", good, {}),
        (404, "GET", "/openapi.json", {}),
    ]

    async def send():
        async with serving(tmp_path, scripted_pool(log)) as client:
            return [await client.request(method, path, **options) for _, method, path, options in wrong]

    for (status, *request), response in zip(wrong, asyncio.run(send()), strict=True):
        if response.status_code == 404 and "%2f" in request[1]:
            continue  # no route has such a path
        assert response.status_code == status, (request[:2], response.text)
        assert len(response.json()["detail"].splitlines()) == 1 and "passwd" not in response.text
    assert lines(log) == [] and not list(tmp_path.glob("*/*.json"))


class Breaks(ScriptedHost):
    """Has a defect in its sweeps."""

    def screen(self, task, candidates):
        return 1 // 0


class Held(ScriptedHost):
    """Holds every kernel until its call is cancelled."""

    def __init__(self):
        super().__init__()
        self.began, self.ended = threading.Event(), threading.Event()

    def evaluate(self, task, candidate, **options):
        with this_call().ending_by(self.ended.set):
            self.began.set()
            self.ended.wait(60)
        raise AssertionError("nobody cancelled it")


def test_a_call_that_all_its_callers_cancel_is_broken_off(tmp_path, task, candidate):
    held, heard = Held(), []

    async def hear(request):
        heard.append((request.method, request.headers["egg-caller"]))

    async def cancel():
        async with serving(tmp_path, Pool([lambda: held])) as client:
            second = httpx.AsyncClient(
                transport=client._transport, base_url="http://judge", headers={**client.headers, "egg-caller": "you"}
            )
            client.event_hooks = second.event_hooks = {"request": [hear]}
            calls = [asyncio.create_task(through(one).aevaluate(task, candidate("ok"))) for one in (client, second)]
            await asyncio.to_thread(held.began.wait, 60)
            while not {("GET", "me"), ("GET", "you")} <= set(heard):
                await asyncio.sleep(0.01)
            calls[0].cancel()
            await asyncio.wait(calls[:1])
            assert not held.ended.is_set(), "another one waits for it"
            calls[1].cancel()
            await asyncio.wait(calls)
            assert await asyncio.to_thread(held.ended.wait, 60)
            while list(tmp_path.glob("*/*.json")):
                await asyncio.sleep(0.01)

    asyncio.run(cancel())


def test_a_fault_of_the_machine_is_told_and_not_kept(tmp_path, log, task, candidate):
    async def ask():
        raises, tells = ScriptedHost(log=log, faults=2), Breaks(log=log, faults=1, raises=False)
        async with serving(tmp_path / "raises", Pool([lambda: raises])) as client:
            with pytest.raises(InfrastructureError, match="the GPU is busy"):
                await through(client).aevaluate(task, candidate("ok"))  # the pool itself tried twice
            assert (await through(client).aevaluate(task, candidate("ok"))).status == "correct"
        async with serving(tmp_path / "tells", Pool([lambda: tells])) as client:
            with pytest.raises(InfrastructureError, match="the evaluator broke: ZeroDivisionError: integer division"):
                await through(client).ascreen(task, [candidate("ok"), candidate("ok", 2)])
            assert (await through(client).aevaluate(task, candidate("ok"))).status == "infra_error"
            assert (await through(client).aevaluate(task, candidate("ok"))).status == "correct"

    asyncio.run(ask())


def test_what_another_host_said_is_no_answer_of_this_one(tmp_path, log, task):
    async def ask(judge):
        async with serving(tmp_path, scripted_pool(log), judge) as client:
            return await through(client).abaseline(task)

    for judge in ("driver 1", "driver 1", "driver 2"):
        asyncio.run(ask(judge))
    assert lines(log) == ["baseline", "baseline"]


def test_a_server_that_was_never_there_is_told_at_once_and_one_that_went_away_is_waited_for(tmp_path, log, task):
    remote = RemoteEvaluator(f"http://127.0.0.1:{free_port()}", token=TOKEN)
    with pytest.raises(
        InfrastructureError, match=r"cannot be reached \(ConnectError.*see that egg-graph serve"
    ) as error:
        remote.baseline(task)
    assert len(str(error.value).splitlines()) == 1

    there, heard = iter([True]), []

    def answer(request):
        if next(there, False):
            return httpx.Response(202, json={"reports": [], "seen": 0})
        raise httpx.ConnectError("refused")

    remote._client = lambda: httpx.AsyncClient(base_url="http://judge", transport=httpx.MockTransport(answer))
    remote._patience = 0.3
    with (
        hear_progress(lambda p: heard.append(p.doing)),
        pytest.raises(InfrastructureError, match=r"took no request for 0\.3 s \(ConnectError"),
    ):
        remote.baseline(task)
    assert heard == [f"waits for {remote.url}: ConnectError: refused"]


@pytest.mark.parametrize("url", ["ftp://host", "host:80", "http://me:secret@host", "http://"])
def test_a_url_that_cannot_be_one_is_refused(url):
    with pytest.raises(BadInput, match="give the server's address"):
        RemoteEvaluator(url, token=TOKEN)


def test_a_server_needs_a_token_that_nobody_guesses(monkeypatch, tmp_path):
    monkeypatch.delenv("EGG_GRAPH_TOKEN", raising=False)
    with pytest.raises(BadInput, match="set EGG_GRAPH_TOKEN"):
        RemoteEvaluator("http://127.0.0.1:1")
    with pytest.raises(BadInput, match="the token has 6 letters"):
        build_server(lambda: None, "secret")

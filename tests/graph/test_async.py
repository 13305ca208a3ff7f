"""Asynchronous roles and evaluators, and cancelled runs."""

import asyncio
import functools
import threading
import time

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver

from egg_graph import Context, InfrastructureError, aoptimize, aresume, build_egg_graph, optimize
from tests.graph.scripted import REFERENCE, ScriptedEvaluator, ScriptedTeam, StatelessTeam, kernel, tunable

INPUT = {"reference": REFERENCE}
CONTEXT = Context(target="h100", max_optimizations=1)
SCRIPT = [
    kernel("bad"),
    tunable("ok", 9, "parallel_mapping", [9, 7]),
    kernel("bad", 2),
    kernel("ok", 8),
    kernel("ok", 6),
]


class AsyncTeam(StatelessTeam):
    """The same answers, each after a turn of the event loop."""

    async def analyze(self, brief):
        await asyncio.sleep(0)
        return super().analyze(brief)

    async def write(self, brief):
        await asyncio.sleep(0)
        return super().write(brief)

    async def debug(self, brief):
        await asyncio.sleep(0)
        return super().debug(brief)


class AsyncEvaluator(ScriptedEvaluator):
    """The same verdicts, all in one event loop: its lock belongs to the first that uses it."""

    def __init__(self, **options):
        super().__init__(**options)
        self.lock = asyncio.Lock()

    async def baseline(self, task):
        async with self.lock:
            await asyncio.sleep(0)
            return super().baseline(task)

    async def evaluate(self, task, candidate, **options):
        async with self.lock:
            await asyncio.sleep(0)
            return super().evaluate(task, candidate, **options)

    async def screen(self, task, candidates):
        async with self.lock:
            await asyncio.sleep(0)
            return super().screen(task, candidates)


def graph(team=AsyncTeam, evaluator=AsyncEvaluator, **options):
    return build_egg_graph(team=team(SCRIPT), evaluator=evaluator(**options), principles=())


def outcome(state):
    tried = [(a.candidate.mode, a.evaluation.status) for a in state["attempts"]]
    return state["status"], state["kernel"], tried, state["usage"]


def invoke(graph):
    return graph.invoke(INPUT, context=CONTEXT)


def stream(graph):
    return list(graph.stream(INPUT, context=CONTEXT, stream_mode="values"))[-1]


def ainvoke(graph):
    return asyncio.run(graph.ainvoke(INPUT, context=CONTEXT))


def astream(graph):
    async def last():
        return [value async for value in graph.astream(INPUT, context=CONTEXT, stream_mode="values")][-1]

    return asyncio.run(last())


@pytest.fixture(scope="module")
def expected():
    return outcome(invoke(graph(StatelessTeam, ScriptedEvaluator)))


@pytest.mark.parametrize("call", [invoke, stream, ainvoke, astream])
@pytest.mark.parametrize(
    ("team", "evaluator"),
    [(AsyncTeam, AsyncEvaluator), (AsyncTeam, ScriptedEvaluator), (StatelessTeam, AsyncEvaluator)],
)
def test_parts_of_both_kinds_work_under_every_call(call, team, evaluator, expected):
    assert outcome(call(graph(team, evaluator))) == expected


def test_asynchronous_parts_work_under_invoke_in_a_notebook(expected):
    """Where an event loop runs already in the caller's thread."""

    async def cell():
        return invoke(graph())

    assert outcome(asyncio.run(cell())) == expected


@pytest.mark.parametrize("call", [invoke, ainvoke])
def test_errors_of_asynchronous_parts_are_retried_and_told_as_others(call, expected, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    monkeypatch.setattr("asyncio.sleep", functools.partial(asyncio.sleep, 0))
    assert outcome(call(graph(faults=2))) == expected
    with pytest.raises(InfrastructureError, match="the GPU is busy"):
        call(graph(faults=99))


class PatientModel(BaseChatModel):
    """Answers all calls at once, when as many wait as it is told."""

    expected: int
    waiting: int = 0
    threads: int = 0
    """Threads of this process while all wait."""
    enough: asyncio.Event

    @property
    def _llm_type(self):
        return "patient"

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        raise AssertionError("called synchronously")

    async def _agenerate(self, messages, stop=None, run_manager=None, **kwargs):
        self.waiting += 1
        if self.waiting == self.expected:
            self.threads = threading.active_count()
            self.enough.set()
        await self.enough.wait()
        return ChatResult(generations=[ChatGeneration(message=AIMessage("```python\nclass ModelNew: pass\n```"))])


def test_a_run_that_waits_for_its_model_holds_no_thread():
    runs = 40

    async def work():
        model = PatientModel(expected=runs, enough=asyncio.Event())
        patient = build_egg_graph(model, evaluator=ScriptedEvaluator(), principles=())
        context = Context(target="h100", stages=("algorithmic_structure",), max_attempts=1, expert_seed=False)
        before = threading.active_count()

        async def first_answer():
            async for update in patient.astream(INPUT, context=context, stream_mode="custom", subgraphs=True):
                if update[1]["event"] == "role":
                    return

        async with asyncio.timeout(60):
            await asyncio.gather(*(first_answer() for _ in range(runs)))
        return model.threads - before

    assert asyncio.run(work()) < 10, "an event loop's own executor may have some"


class Stuck(ScriptedEvaluator):
    """Evaluates nothing: it waits until its coroutine is cancelled."""

    def __init__(self):
        super().__init__()
        self.at_work = asyncio.Event()
        self.cancelled = False

    async def evaluate(self, task, candidate, **options):
        self.at_work.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise


class StuckInAThread(ScriptedEvaluator):
    """Evaluates nothing, and knows no cancelling."""

    def __init__(self):
        super().__init__()
        self.at_work = asyncio.Event()
        self.loop = asyncio.get_running_loop()
        self.released = threading.Event()

    def evaluate(self, task, candidate, **options):
        self.loop.call_soon_threadsafe(self.at_work.set)
        self.released.wait(60)
        return super().evaluate(task, candidate, **options)


@pytest.mark.parametrize("kind", [Stuck, StuckInAThread])
def test_a_cancelled_run_ends_at_once_and_calls_nobody_any_more(kind):
    async def work():
        team, evaluator = StatelessTeam(SCRIPT), kind()
        stuck = build_egg_graph(team=team, evaluator=evaluator, principles=(), checkpointer=InMemorySaver())
        config = {"configurable": {"thread_id": "1"}}
        run = asyncio.create_task(stuck.ainvoke(INPUT, config, context=CONTEXT))
        await evaluator.at_work.wait()
        started = time.monotonic()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert time.monotonic() - started < 1.0
        if kind is Stuck:
            assert evaluator.cancelled
        else:
            evaluator.released.set()
            await asyncio.sleep(0.1)  # a second call would come at once
        assert team.calls() == [] and len(evaluator.evaluated) <= 1
        return (await stuck.aget_state(config)).next

    assert asyncio.run(work()) == ("algorithmic_structure.evaluator",), "where the run goes on"


def parts(evaluator):
    return {"team": ScriptedTeam(SCRIPT), "evaluator": evaluator, "principles": ()}


def test_aoptimize_can_be_cancelled_and_resumed(tmp_path):
    async def work():
        heard = []

        async def listen(event):
            await asyncio.sleep(0)
            if event["event"] not in ("started", "working", "ledger"):
                heard.append(event["event"])

        stuck = Stuck()
        knobs = {"target": "h100", "max_optimizations": 1, "runs_dir": tmp_path}
        run = asyncio.create_task(aoptimize(REFERENCE, name="relu", on_event=listen, **knobs, **parts(stuck)))
        await stuck.at_work.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert heard == ["baseline", "stage", "role"]
        (folder,) = tmp_path.iterdir()
        evaluator = AsyncEvaluator()
        team = StatelessTeam(SCRIPT)
        ended = await aresume(
            folder.name, runs_dir=tmp_path, team=team, evaluator=evaluator, principles=(), on_event=listen
        )
        assert heard[3] == "attempt" and heard[-1] == "verdict"
        return ended

    ended = asyncio.run(work())
    assert ended.accepted and ended.kernel_path.exists()


def test_a_cancelled_run_ends_the_write_in_work_before_its_database_is_closed(tmp_path, monkeypatch):
    begun, ended = threading.Event(), threading.Event()
    write = SqliteSaver.put_writes

    def put_writes(self, *args, **kwargs):
        begun.set()
        time.sleep(0.1)
        write(self, *args, **kwargs)
        ended.set()

    monkeypatch.setattr(SqliteSaver, "put_writes", put_writes)

    async def work():
        run = asyncio.create_task(aoptimize(REFERENCE, target="h100", runs_dir=tmp_path, **parts(AsyncEvaluator())))
        while not begun.is_set():
            await asyncio.sleep(0.001)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert ended.is_set()

    asyncio.run(work())


def test_optimize_works_in_a_notebook(tmp_path):
    async def cell():
        return optimize(REFERENCE, target="h100", runs_dir=tmp_path, **parts(AsyncEvaluator()))

    assert asyncio.run(cell()).accepted


def test_aoptimize_never_blocks_its_event_loop(tmp_path):
    """As `langgraph dev` demands of whatever runs in a loop: files, locks and SQLite are waited for in threads."""
    blockbuster = pytest.importorskip("blockbuster", reason="blockbuster comes with langgraph dev")
    lock = threading.Lock()

    def listen(event):
        with lock:
            pass

    with blockbuster.blockbuster_ctx():
        work = aoptimize(REFERENCE, target="h100", runs_dir=tmp_path, on_event=listen, **parts(ScriptedEvaluator()))
        assert asyncio.run(work).accepted

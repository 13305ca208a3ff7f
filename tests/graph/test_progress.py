"""What a run tells while it works: who is at it, what the evaluator reports, and the same as lines of a log."""

import asyncio
import contextvars
import dataclasses
import json
import logging
import threading
import types

import pytest
from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime

from egg_graph import Context, State, build_egg_graph
from egg_graph.evaluator import report_progress
from egg_graph.nodes import announce
from egg_graph.nodes.announce import announced
from egg_graph.nodes.events import Event
from egg_graph.schema import InfrastructureError
from tests.graph.scripted import REFERENCE, ScriptedEvaluator, ScriptedTeam, kernel, tunable

INPUT = {"reference": REFERENCE}
CONTEXT = Context(target="h100", max_optimizations=0, stages=("tensor_tiling",))
OK = [kernel("ok")]
SWEPT = [tunable("timed", 3, "tensor_tiling", [3, 2])]
PATIENCE = 20.0
"""Seconds after which a test gives up."""


def graph(evaluator, writes=OK):
    return build_egg_graph(team=ScriptedTeam(writes), evaluator=evaluator, principles=())


def stream(evaluator, writes=OK, **knobs):
    context = dataclasses.replace(CONTEXT, **knobs)
    for _, event in graph(evaluator, writes).stream(INPUT, context=context, stream_mode="custom", subgraphs=True):
        assert set(event) <= set(Event.__annotations__), event
        json.dumps(event)
        yield event


def nodes(events):
    return [e["node"] for e in events if e["event"] == "started" and "number" not in e]


def test_every_node_that_runs_says_that_it_starts():
    async def astream():
        call = graph(ScriptedEvaluator()).astream(INPUT, context=CONTEXT, stream_mode="custom", subgraphs=True)
        return [event async for _, event in call]

    stage = ["open", "coder", "evaluator", "tuner", "close"]
    expected = ["prepare", "baseline", *stage, "conclude"]
    events = list(stream(ScriptedEvaluator()))
    assert {event.get("stage") for event in events} == {None, "tensor_tiling"}, "a stage left out sends nothing"
    assert nodes(events) == expected == nodes(asyncio.run(astream()))
    started = {e["node"]: e for e in events if e["event"] == "started"}
    assert events[0] == {"event": "started", "node": "prepare"}
    assert started["coder"] == {
        "event": "started",
        "node": "coder",
        "stage": "tensor_tiling",
        "attempt": 1,
        "mode": "seed",
    }


class SlowBaseline(ScriptedEvaluator):
    """Reports what it does, and is not done before it is let go."""

    def __init__(self):
        super().__init__()
        self.go = threading.Event()

    def baseline(self, task):
        report_progress("waits")
        assert self.go.wait(PATIENCE), "nobody saw that it works"
        return super().baseline(task)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_node_that_takes_long_goes_on_saying_so(monkeypatch, asynchronous):
    assert announce.BEAT < 3
    monkeypatch.setattr(announce, "BEAT", 0.02)
    evaluator, beats = SlowBaseline(), []

    def see(event):
        if event["event"] == "working" and event["node"] == "baseline":
            beats.append(event)
            if len(beats) == 3:
                evaluator.go.set()

    async def watch():
        call = graph(evaluator).astream(INPUT, context=CONTEXT, stream_mode="custom", subgraphs=True)
        async for _, event in call:
            see(event)

    if asynchronous:
        asyncio.run(watch())
    else:
        for event in stream(evaluator):
            see(event)
    assert {beat["doing"] for beat in beats} == {"waits"}
    assert beats[0]["seconds"] <= beats[-1]["seconds"]


class Waiting:
    """A node that is a coroutine function."""

    def __init__(self):
        self.seen = asyncio.Event()

    @announced
    async def baseline(self, state, runtime):
        report_progress("waits")
        await asyncio.wait_for(self.seen.wait(), PATIENCE)
        return {}


def test_a_node_may_be_a_coroutine_function(monkeypatch):
    monkeypatch.setattr(announce, "BEAT", 0.02)

    async def watch():
        waiting, builder = Waiting(), StateGraph(State, context_schema=Context)
        builder.add_node("baseline", waiting.baseline)
        builder.add_edge(START, "baseline")
        events = []
        async for event in builder.compile().astream(INPUT, stream_mode="custom"):
            events.append(event)
            if len(events) == 4:
                waiting.seen.set()
        return events

    events = asyncio.run(watch())
    assert events[0] == {"event": "started", "node": "baseline"}
    assert {(e["event"], e["doing"]) for e in events[1:]} == {("working", "waits")}


class Paused:
    """A node that is a coroutine function, at a point where it waits."""

    @announced
    async def coder(self, state, runtime):
        report_progress("waits")
        await self.pause()

    @types.coroutine
    def pause(self):
        yield


def test_a_coroutine_that_is_given_up_falls_silent_wherever_it_is_closed(monkeypatch):
    monkeypatch.setattr(announce, "BEAT", 0.02)
    given_up, other, seen = [], [], threading.Semaphore(0)

    def write(event):
        other.append(event)
        seen.release()

    works = [Paused().coder({}, Runtime(stream_writer=writer)) for writer in (given_up.append, write)]
    for work in works:
        contextvars.copy_context().run(work.send, None)
    works[0].close()
    told = len(given_up)
    for _ in range(6):
        assert seen.acquire(timeout=PATIENCE), "the other one fell silent as well"
    works[1].close()
    assert [event["event"] for event in other[:6]] == ["started"] + 5 * ["working"]
    assert len(given_up) == told


class ReportingSweep(ScriptedEvaluator):
    """Reports each configuration, and goes on when its trial was seen."""

    def __init__(self):
        super().__init__()
        self.seen = threading.Semaphore(0)

    def screen(self, task, candidates):
        trials = super().screen(task, candidates)
        for number, trial in enumerate(trials):
            report_progress("compiles", number=number)
            report_progress(number=number, trial=trial)
            assert self.seen.acquire(timeout=PATIENCE), "nobody saw the trial"
        return trials


def test_a_sweep_tells_each_configuration_when_it_starts_and_when_it_is_done():
    evaluator, events = ReportingSweep(), []
    for event in stream(evaluator, SWEPT):
        events.append(event)
        if event["event"] == "trial":
            evaluator.seen.release()
    configurations = [e for e in events if e["event"] == "trial" or "number" in e]
    assert [(e["event"], e["config"]["NUMBER"]) for e in configurations] == [
        ("started", 3),
        ("trial", 3),
        ("started", 2),
        ("trial", 2),
    ]
    first = configurations[0]
    assert (first["node"], first["number"], first["of"], first["doing"]) == ("tuner", 1, 2, "compiles")
    assert (first["stage"], first["attempt"], first["mode"]) == ("tensor_tiling", 2, "tune")


@pytest.mark.parametrize(
    ("most", "reason"),
    [
        (2, "NUMBER 8, 7, 6 left out: max_configs is 2"),
        (9, "NUMBER 6 left out: where nothing is timed, a sweep tries at most 4 configurations"),
    ],
)
def test_a_sweep_that_is_cut_tells_what_is_left_out_and_why(most, reason):
    writes = [tunable("ok", 50, "tensor_tiling", [50, 9, 8, 7, 6])]
    events = list(stream(ScriptedEvaluator(), writes, max_configs=most))
    assert [e["reason"] for e in events if e["event"] == "sweep"] == [reason]


def test_an_evaluator_that_reports_nothing_tells_its_trials_at_the_end():
    events = list(stream(ScriptedEvaluator(), SWEPT))
    assert [e["config"]["NUMBER"] for e in events if e["event"] == "trial"] == [3, 2]
    assert not any("number" in e for e in events)


def test_the_log_has_a_line_for_each_event(caplog):
    caplog.set_level(logging.DEBUG, logger="egg_graph")
    list(stream(ScriptedEvaluator(), [kernel("bad"), kernel("ok")]))
    lines = [(record.levelname, record.getMessage()) for record in caplog.records if record.name == "egg_graph"]
    assert ("DEBUG", "started node=coder stage=tensor_tiling attempt=2 mode=repair") in lines
    attempts = [text for level, text in lines if level == "INFO" and text.startswith("attempt ")]
    assert 'status=incorrect reason="bad kernel"' in attempts[0] and "status=correct" in attempts[1]
    assert not any("\n" in text for _, text in lines)
    verdict = next(r.egg_event for r in caplog.records if r.getMessage().startswith("verdict "))
    assert verdict["status"] == "correct"


def test_the_log_tells_of_a_node_that_fails_and_is_tried_again(caplog, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _: None)
    list(stream(ScriptedEvaluator(faults=1)))
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warned == ["node=evaluator stage=tensor_tiling attempt=1 mode=seed failed: the GPU is busy"]
    with pytest.raises(InfrastructureError):
        list(stream(ScriptedEvaluator(faults=9)))

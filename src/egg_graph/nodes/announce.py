"""Tell what a node does while it does it: on the stream, and in the log.

`announced` goes around every node. It sends `started` when the node starts and `working` every two seconds until it
ends, with what the evaluator last reported. Each event also becomes a line of the logger `egg_graph`: what a run
establishes at level INFO, what is only being done at DEBUG, a node that fails at WARNING.
"""

import functools
import inspect
import logging
import os
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar, copy_context
from types import TracebackType
from typing import Any, Self, get_args

from langgraph.errors import GraphBubbleUp
from langgraph.runtime import Runtime

from egg_graph.block_values import set_in_block
from egg_graph.context import Context
from egg_graph.evaluator.progress import Progress, hear_progress
from egg_graph.nodes.events import Event, request_event
from egg_graph.routing import next_number
from egg_graph.schema import Mode, Role

LOG = logging.getLogger("egg_graph")
BEAT = 2.0
"""Most seconds between two `working` events."""
LOOKS = 4
"""How often the ticker looks, within one beat, whose turn it is."""

_IN_PROGRESS = frozenset({"started", "working", "sweep", "trial", "ledger"})
"""Events that are logged at level DEBUG."""
_WORKERS = (*get_args(Role), "evaluator", "tuner")
"""Nodes that work at an attempt."""
_SIDE_BY_SIDE = ("draft", "judge")
"""Nodes that work at one of several drafts."""
_MODES: dict[str, Mode] = {"analyst": "optimize", "debugger": "repair", "tuner": "tune"}
"""The mode of the nodes that have only one; the others have the state's."""


def send_here(make: Callable[[Event], Event]) -> None:
    """Send an event of the node at work, made of what all its events have in common; nothing outside of a node."""
    node = _AT_WORK.get()
    if node is not None:
        node._send(make(node._about))


def announced(node: Callable[..., Any]) -> Callable[..., Any]:
    """Tell when the node starts, that it works, and what it sends. The node may be a coroutine function."""
    name = node.__name__

    @functools.wraps(node)
    def run(self: Any, state: Any, runtime: Runtime[Context]) -> Any:
        announcer = _Announcer(_about(name, self, state), runtime)
        with announcer, set_in_block(_AT_WORK, announcer), hear_progress(announcer.hear):
            return node(self, state, announcer.runtime)

    @functools.wraps(node)
    async def arun(self: Any, state: Any, runtime: Runtime[Context]) -> Any:
        announcer = _Announcer(_about(name, self, state), runtime)
        with announcer, set_in_block(_AT_WORK, announcer), hear_progress(announcer.hear):
            return await node(self, state, announcer.runtime)

    return arun if inspect.iscoroutinefunction(node) else run


def tell(event: Event, runtime: Runtime[Context]) -> None:
    """Send and log one event of a node that is not announced."""
    LOG.info("%s", _words(event), extra={"egg_event": event})
    runtime.stream_writer(event)


def _about(name: str, nodes: Any, state: Any) -> Event:
    """What all events of a node at work have in common."""
    about = Event(node=name)
    if hasattr(nodes, "stage"):
        about["stage"] = nodes.stage.name
    if name in _SIDE_BY_SIDE:
        about["attempt"], about["draft"], about["mode"] = state["first"], state["draft"], state["mode"]
    if name in _WORKERS:
        about["attempt"] = next_number(state)
        about["mode"] = _MODES.get(name) or state.get("mode") or "seed"
    return about


class _Announcer:
    """One node at work."""

    def __init__(self, about: Event, runtime: Runtime[Context]) -> None:
        self._about = about
        self._write = runtime.stream_writer
        self._thread_id = getattr(runtime.execution_info, "thread_id", None)
        self._runtime = runtime
        self._began = time.monotonic()
        self._doing = ""
        self._beaten = self._began
        self._ended = False
        self._sending = threading.Lock()

    @property
    def runtime(self) -> Runtime[Context]:
        """The node's runtime, with a stream writer that also logs.

        Kept here it would keep all that the node saw until the garbage collector comes.
        """
        return self._runtime.override(stream_writer=self._send)

    def __enter__(self) -> Self:
        self._context = copy_context()  # the stream writer looks up the node's place in the graph in it
        self._send(Event(event="started", **self._about))
        _TICKER.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _TICKER.discard(self)
        with self._sending:
            self._ended = True
        if isinstance(error, Exception) and not isinstance(error, GraphBubbleUp):
            LOG.warning("%s failed: %s", _words(self._about), error, extra=self._extra(self._about))

    def hear(self, progress: Progress) -> None:
        """Send what the evaluator or a model tells."""
        if progress.request is not None:
            self._send(request_event(progress.request))
            return
        self._doing = progress.doing
        self._send(self._working())

    def _working(self) -> Event:
        seconds = round(time.monotonic() - self._began, 1)
        return Event(event="working", **self._about, doing=self._doing, seconds=seconds)

    def beat(self) -> None:
        """Send `working` if it is time to."""
        with self._sending:
            now = time.monotonic()
            if self._ended or now - self._beaten < BEAT - BEAT / LOOKS:
                return
            self._beaten = now
            try:
                self._context.copy().run(self._write, self._working())
            except RuntimeError:  # the event loop that streamed is closed: nobody listens any more
                self._ended = True

    def _send(self, event: Event) -> None:
        level = logging.DEBUG if event["event"] in _IN_PROGRESS else logging.INFO
        if LOG.isEnabledFor(level):
            LOG.log(level, "%s", _words(event), extra=self._extra(event))
        self._context.copy().run(self._write, event)

    def _extra(self, event: Event) -> dict[str, Any]:
        return {"egg_event": event, "egg_thread": self._thread_id}


class _Ticker:
    """Lets every node at work beat, from one thread, because a thread for each node would cost more than the node.

    The thread ends when there has been no node for a while, and starts again with the next one.
    """

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Begin with no node and no thread, as every forked process has to."""
        self._lock = threading.Lock()
        self._at_work: set[_Announcer] = set()
        self._thread: threading.Thread | None = None

    def add(self, announcer: _Announcer) -> None:
        with self._lock:
            self._at_work.add(announcer)
            if self._thread is None:
                self._thread = threading.Thread(target=self._tick, name="egg-graph-ticker", daemon=True)
                self._thread.start()

    def discard(self, announcer: _Announcer) -> None:
        with self._lock:
            self._at_work.discard(announcer)

    def _tick(self) -> None:
        never, idle = threading.Event(), 0
        while True:
            never.wait(BEAT / LOOKS)
            with self._lock:
                at_work = tuple(self._at_work)
                idle = 0 if at_work else idle + 1
                if idle > LOOKS:
                    self._thread = None
                    return
            for announcer in at_work:
                announcer.beat()


_TICKER = _Ticker()
_AT_WORK: ContextVar[_Announcer | None] = ContextVar("egg_graph_node_at_work", default=None)
os.register_at_fork(after_in_child=_TICKER.begin)


def _words(event: Event) -> str:
    """The event as one line: its kind, then `key=value` for every key that says something."""
    told = [f"{key}={_one_line(value)}" for key, value in event.items() if key != "event" and value not in (None, "")]
    return " ".join([*([event["event"]] if "event" in event else []), *told])


def _one_line(value: object) -> str:
    text = " ".join(str(value).split())
    return f'"{text}"' if " " in text else text

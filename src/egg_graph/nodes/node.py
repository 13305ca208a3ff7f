"""A step and a route of the graph under synchronous and asynchronous callers alike."""

from collections.abc import Callable, Coroutine
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.runtime import Runtime, get_runtime

from egg_graph.calls import arun, run
from egg_graph.context import Context

Step = Callable[[Any, Runtime[Context]], Coroutine[Any, Any, Any]]


class Node(Runnable[Any, Any]):
    """A node of a graph.

    Args:
        step: a coroutine function of state and runtime, which awaits `Call`s alone.
    """

    def __init__(self, step: Step) -> None:
        self.step = step

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Run the step under `invoke` and `stream` of the graph."""
        return run(self.step(input, get_runtime(Context)))

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Run the step under `ainvoke` and `astream`. If the run is cancelled, no further call is made."""
        return await arun(self.step(input, get_runtime(Context)))


class Route(Runnable[Any, Any]):
    """A route of a graph, taken where the caller is: LangGraph sends a plain function to another thread and back.

    Args:
        route: a function of the state alone, which blocks nobody.
    """

    def __init__(self, route: Callable[[Any], Any]) -> None:
        self.route = route
        self.name = route.__name__

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Take the route; `get_runtime` tells it what runtime there is."""
        before = var_child_runnable_config.set(config)
        try:
            return self.route(input)
        finally:
            var_child_runnable_config.reset(before)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Take the route in an event loop."""
        return self.invoke(input, config)

"""What a LangGraph server needs to know of the graph."""

from collections.abc import Callable, Mapping
from typing import Any

from langgraph.graph.state import CompiledStateGraph
from langgraph_sdk.runtime import ServerRuntime

from egg_graph.context import make_context


def served(graph: CompiledStateGraph[Any, Any, Any, Any]) -> Callable[[ServerRuntime[Any]], Any]:
    """Make what langgraph.json points to: `graph = served(build_egg_graph())`. A server then refuses an unknown knob.

    On its own it drops the keys of a context that the graph's schema does not name, without a word and before the graph
    sees them. A factory sees them all.

    Returns:
        A factory of the graph. It raises `BadInput` where the context of a run holds an unknown or a wrong knob.
    """

    def make(runtime: ServerRuntime[Any]) -> CompiledStateGraph[Any, Any, Any, Any]:
        running = runtime.execution_runtime
        if running is not None and isinstance(running.context, Mapping):
            # The server's own keys; a client that sends `configurable` in place of a context sends them as well.
            make_context({name: knob for name, knob in running.context.items() if not name.startswith("__")})
        return graph

    return make

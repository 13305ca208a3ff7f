"""`as_tool()` of the compiled graph: a tool that an agent can use as it is."""

from typing import Any

from langchain_core.callbacks import Callbacks
from langchain_core.tools import BaseTool, StructuredTool, ToolException
from langgraph.graph.state import CompiledStateGraph
from langgraph.typing import ContextT, InputT, OutputT, StateT
from pydantic import TypeAdapter

from egg_graph.schema import EggError
from egg_graph.state import InputState
from egg_graph.tools.results import RunResult, run_result

DESCRIPTION = (
    "Replace a PyTorch module by a Triton kernel that is proven to give the same answers. Takes minutes. "
    "Returns status, verdict, kernel (its source; empty where the module is better kept) and ratio (speedup, if timed)."
)


class ToolGraph(CompiledStateGraph[StateT, ContextT, InputT, OutputT]):
    """A compiled graph with a tool of its own.

    LangChain's `as_tool` makes every key of the input required, and returns the whole state: more than an agent reads.
    """

    def as_tool(
        self,
        args_schema: Any = None,
        *,
        name: str | None = None,
        description: str | None = None,
        arg_types: dict[str, type] | None = None,
    ) -> BaseTool:
        """A tool that runs the graph and returns a `RunResult`. What was wrong is told to the agent in one line.

        Args:
            args_schema: the arguments; by default the keys of the input, described.
            name: name of the tool; by default the graph's.
            description: what the tool does, for the agent.
            arg_types: not used; the input of this graph is typed.
        """

        def optimize_module(callbacks: Callbacks = None, **arguments: Any) -> RunResult:
            given: Any = arguments
            try:
                return run_result(self.invoke(given, {"callbacks": callbacks}))
            except EggError as error:
                raise ToolException(str(error)) from error

        async def optimize_module_async(callbacks: Callbacks = None, **arguments: Any) -> RunResult:
            given: Any = arguments
            try:
                return run_result(await self.ainvoke(given, {"callbacks": callbacks}))
            except EggError as error:
                raise ToolException(str(error)) from error

        return StructuredTool.from_function(
            optimize_module,
            optimize_module_async,
            name=name or self.get_name(),
            description=description or DESCRIPTION,
            args_schema=args_schema or input_arguments(),
            handle_tool_error=True,
        )


def input_arguments() -> dict[str, Any]:
    """JSON Schema of the graph's input."""
    schema = TypeAdapter(InputState).json_schema()
    return {key: schema[key] for key in ("type", "properties", "required")} | {"additionalProperties": False}

"""The compiled graph as people steer it: pauses by a step's short name, checked edits, runs that begin clean."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, get_args

from langchain_core.runnables import RunnableConfig
from langgraph.graph import StateGraph
from langgraph.types import All, StateUpdate
from langgraph.typing import ContextT, InputT, OutputT, StateT

from egg_graph.channels import quickly_copied
from egg_graph.context import make_context, recursion_limit
from egg_graph.schema import Status
from egg_graph.steering.as_tool import ToolGraph
from egg_graph.steering.topology import Side, find_steps
from egg_graph.steering.validation import check_edit

Names = All | Sequence[str] | None
"""Names of nodes to pause at, `*` for all of them, None for those that the graph was built with."""


ENDS = frozenset({*get_args(Status), "reference_kept"})
"""Every status with which a run ends."""


class EggGraph(ToolGraph[StateT, ContextT, InputT, OutputT]):
    """A `CompiledStateGraph` that checks what people hand it.

    The context may be a mapping of knobs. `interrupt_before` and `interrupt_after` also take a step's short name
    (`evaluator`: in every stage) and a stage's name; an unknown one is refused. `update_state` takes values as JSON has
    them, and refuses a bad one.

    Raises:
        BadInput: where a name or a value is refused; one line says which.
    """

    def stream(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        context: Any = None,
        interrupt_before: Names = None,
        interrupt_after: Names = None,
        **options: Any,
    ) -> Iterator[Any]:
        """See `Pregel.stream`; `invoke` comes here as well."""
        options |= self._pauses(interrupt_before, interrupt_after)
        return super().stream(begin(input), config, context=_read_knobs(context), **options)

    def astream(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        context: Any = None,
        interrupt_before: Names = None,
        interrupt_after: Names = None,
        **options: Any,
    ) -> AsyncIterator[Any]:
        """See `Pregel.astream`; `ainvoke` and LangGraph servers come here as well."""
        options |= self._pauses(interrupt_before, interrupt_after)
        return super().astream(begin(input), config, context=_read_knobs(context), **options)

    def bulk_update_state(self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]) -> RunnableConfig:
        """See `Pregel.bulk_update_state`; `update_state` comes here as well."""
        return super().bulk_update_state(config, self._check(config, supersteps))

    async def abulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """See `Pregel.abulk_update_state`; `aupdate_state` and LangGraph servers come here as well."""
        return await super().abulk_update_state(config, self._check(config, supersteps))

    def _pauses(self, before: Names, after: Names) -> dict[str, Any]:
        return {
            "interrupt_before": find_all(before, self.builder.nodes, "before"),
            "interrupt_after": find_all(after, self.builder.nodes, "after"),
        }

    def _check(self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]) -> list[list[StateUpdate]]:
        """Check every update of the state; those of a graph inside an inserted node are that graph's business."""
        if config.get("configurable", {}).get("checkpoint_ns") and any(self.get_subgraphs()):
            return [list(updates) for updates in supersteps]
        return [[self._check_one(StateUpdate(*update)) for update in updates] for updates in supersteps]

    def _check_one(self, update: StateUpdate) -> StateUpdate:
        if update.as_node is not None and not update.as_node.startswith("__") and update.as_node not in self.nodes:
            found = find_steps(update.as_node, self.builder.nodes)
            update = update._replace(as_node=found[0] if len(found) == 1 else update.as_node)
        return update._replace(values=check_edit(update.values, frozenset(self.builder.channels)))


class EggBuilder(StateGraph[StateT, ContextT, InputT, OutputT]):
    """A `StateGraph` that compiles to an `EggGraph`.

    Args:
        inserted: count of the caller's own nodes, for the recursion limit.
    """

    inserted: int = 0

    def compile(
        self, checkpointer: Any = None, *, interrupt_before: Names = None, interrupt_after: Names = None, **options: Any
    ) -> EggGraph[StateT, ContextT, InputT, OutputT]:
        """See `StateGraph.compile`.

        Raises:
            BadInput: if there is no node to pause at by one of these names.
        """
        pauses: Any = {
            "interrupt_before": find_all(interrupt_before, self.nodes, "before"),
            "interrupt_after": find_all(interrupt_after, self.nodes, "after"),
        }
        compiled = super().compile(checkpointer, **pauses, **options)
        parts = {name: part for name, part in vars(compiled).items() if name != "__orig_class__"}
        parts["channels"] = {name: quickly_copied(channel) for name, channel in compiled.channels.items()}
        graph: EggGraph[StateT, ContextT, InputT, OutputT] = EggGraph(**parts)
        return graph.with_config(recursion_limit=recursion_limit(inserted=self.inserted))


def begin(given: Any) -> Any:
    """Make the input of a run whole: what is left out is empty, whatever an earlier run left on the thread.

    A parent that shares its state passes all of it. The kernel that stands there beside a verdict, or beside the status
    with which a run ends, is the result of the run before, and not handed in.
    """
    if not isinstance(given, Mapping) or not given:
        return given
    whole = {"name": "", "kernel": "", "plan": "", **given}
    if given.get("verdict") or given.get("status") in ENDS:
        whole["kernel"] = ""
    return whole


def _read_knobs(context: Any) -> Any:
    """The context of a call; knobs by name become a `Context`, so that an unknown one is refused in one line."""
    return make_context(context) if isinstance(context, Mapping) else context


def find_all(names: Names, nodes: Mapping[str, Any], side: Side) -> Names:
    """The nodes to pause at. See `find_steps`."""
    if names is None or names == "*":
        return names
    return [step for name in ([names] if isinstance(names, str) else names) for step in find_steps(name, nodes, side)]

"""Lay out the graph: steps named `stage.step`, edges between them, and the caller's own nodes in between."""

import inspect
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Any, Literal, get_args

from langgraph.graph import StateGraph
from langgraph.types import CachePolicy, RetryPolicy

from egg_graph.nodes.node import Node, Route
from egg_graph.schema import BadInput, StageName
from egg_graph.steering.validation import checked

SEPARATOR = "."
"""Between a stage's name and a step's: LangGraph keeps `:` and `|` for itself."""
OUTER = ("prepare", "baseline", "contender", "conclude")
"""The steps outside of the stages."""
STEPS = ("open", "analyst", "coder", "evaluator", "debugger", "tuner", "close")
"""The steps of each stage."""
DETOURS = {"coder": ("draft",), "evaluator": ("judge", "rank")}
"""The nodes that work for a step where several coders draft side by side. What is inserted after the step follows them,
and nothing can be inserted beside them."""
STAGE_NAMES: tuple[StageName, ...] = get_args(StageName)
Side = Literal["before", "after"]
Policies = Mapping[str, RetryPolicy]


@dataclass(frozen=True, kw_only=True)
class Insert:
    """A node of the caller's, beside a step of the graph.

    Args:
        name: name of the node. Beside a step of a stage it becomes `stage.name`, once for every stage that is meant.
        node: a LangGraph node: it takes the state and, if it likes, a `Runtime`, and returns an update of the state.
        before, after: where it stands; give one of them. A step of every stage (`coder`), a step of one stage
            (`tensor_tiling.coder`), a whole stage (`tensor_tiling`), or `prepare`, `baseline`, `contender`,
            `conclude`. Before or after a whole stage a node stands between stages; before a stage it also runs where
            the stage is left out.
        retry_policy, cache_policy: as in LangGraph's `add_node`; a cache policy needs `build_egg_graph(cache=...)`.

    Raises:
        BadInput: if the name is wrong, or not one of `before` and `after` is given.
    """

    name: str
    node: Any
    before: str = ""
    after: str = ""
    retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None
    cache_policy: CachePolicy[Any] | None = None

    def __post_init__(self) -> None:
        taken = (*OUTER, *STEPS, *chain.from_iterable(DETOURS.values()), *STAGE_NAMES)
        if not self.name.isidentifier() or self.name in taken:
            raise BadInput(f"Insert(name={self.name!r}): give it a name of its own, of letters, digits and underscores")
        if bool(self.before) == bool(self.after):
            raise BadInput(f"Insert(name={self.name!r}): say where it stands, by one of before= and after=")

    def stands(self) -> tuple[Side, str]:
        """Side and anchor."""
        return ("before", self.before) if self.before else ("after", self.after)


@dataclass
class Topology:
    """Adds the graph's own steps and edges to a builder, and leads every edge through the nodes that are inserted.

    Raises:
        BadInput: if an inserted node or a retry policy names a step that there is not, or two nodes have one name.
    """

    builder: StateGraph[Any, Any, Any, Any]
    inserts: Sequence[Insert] = ()
    retry_policy: RetryPolicy | Policies | None = None
    _before: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """The nodes that stand before a step, in the order in which they run."""
    _after: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """The nodes that stand after it."""

    def __post_init__(self) -> None:
        if isinstance(self.retry_policy, Mapping):
            for name in self.retry_policy:
                find_steps(name, all_nodes())
        for insert in self.inserts:
            self._place(insert)
        for step in {*self._before, *self._after}:
            for start, end in pairwise([*self._before[step], step, *self._after[step]]):
                if start != step or step.rpartition(SEPARATOR)[2] not in DETOURS:
                    self.builder.add_edge(start, end)

    def node(self, name: str, step: Callable[..., Any], retry_policy: RetryPolicy | None = None) -> None:
        """Add a step of the graph; where it may fail, the caller's retry policy goes before ours."""
        if retry_policy is not None:
            retry_policy = self._policy(name) or retry_policy
        self.builder.add_node(name, Node(checked(step)), retry_policy=retry_policy)

    def edge(self, start: str, end: str) -> None:
        """Lead from one step to another."""
        self.builder.add_edge(self._leave(start), self._enter(end))

    def branch(self, start: str, route: Callable[..., Any], ends: Mapping[str, str]) -> None:
        """Lead from a step to one of several, by the name that `route` answers with."""
        paths: Any = {answer: self._enter(end) for answer, end in ends.items()}
        self.builder.add_conditional_edges(self._leave(start), Route(checked(route)), paths)

    def detour(
        self, start: str, route: Callable[..., Any], nodes: Mapping[str, str], ends: Mapping[str, str], onward: Any
    ) -> None:
        """Lead from a step to one of several, at once or by a detour over nodes that work for it.

        Args:
            route: answers with a name of `nodes`, with several `Send` to them, or with a name of `ends`. It sees the
                state unchecked: see `check_state`.
            nodes: the nodes of the detour by the names of the ways to them; the last one ends it.
            ends: the steps that may follow, whichever way was taken.
            onward: the route to them from the end of the detour.
        """
        paths: Any = {answer: self._enter(end) for answer, end in ends.items()}
        after = self._after.get(start, [])
        inner: Any = dict.fromkeys(ends, after[0]) if after else paths
        self.builder.add_conditional_edges(start, Route(route), inner | dict(nodes))
        for leaving, targets in [(list(nodes.values())[-1], inner), *([(after[-1], paths)] if after else [])]:
            if len(set(targets.values())) == 1:
                self.builder.add_edge(leaving, next(iter(targets.values())))
            else:
                self.builder.add_conditional_edges(leaving, Route(checked(onward)), targets)

    def _enter(self, name: str) -> str:
        """The node by which a step is entered."""
        return [*self._before.get(name, []), name][0]

    def _leave(self, name: str) -> str:
        """The node by which a step is left."""
        return [name, *self._after.get(name, [])][-1]

    def _policy(self, name: str) -> RetryPolicy | None:
        policy = self.retry_policy
        if not isinstance(policy, Mapping):
            return policy
        return policy.get(name) or policy.get(name.rpartition(SEPARATOR)[2])

    def _place(self, insert: Insert) -> None:
        """Add the node once for each step that it stands beside."""
        side, anchor = insert.stands()
        for step in find_steps(anchor, all_steps(), side):
            stage = step.rpartition(SEPARATOR)[0] if anchor not in STAGE_NAMES else ""
            name = f"{stage}{SEPARATOR}{insert.name}" if stage else insert.name
            if name in self.builder.nodes:
                raise BadInput(f"two nodes are named {name!r}: give one of the inserted ones another name")
            node = checked(insert.node) if inspect.isroutine(insert.node) else insert.node
            self.builder.add_node(name, node, retry_policy=insert.retry_policy, cache_policy=insert.cache_policy)
            (self._before if side == "before" else self._after)[step].append(name)


def all_steps() -> tuple[str, ...]:
    """The graph's own steps, in the order of a run."""
    inner = tuple(f"{stage}{SEPARATOR}{step}" for stage in STAGE_NAMES for step in STEPS)
    return (*OUTER[:-1], *inner, OUTER[-1])


def all_nodes() -> tuple[str, ...]:
    """The graph's own nodes, in the order of a run: its steps, each followed by the nodes that work for it."""
    names = {step: DETOURS.get(step.rpartition(SEPARATOR)[2], ()) for step in all_steps()}
    return tuple(
        node
        for step, more in names.items()
        for node in (step, *(f"{step.partition(SEPARATOR)[0]}{SEPARATOR}{n}" for n in more))
    )


def find_steps(name: str, nodes: Iterable[str], side: Side = "before") -> list[str]:
    """The nodes that a person means by a name: a node, a step of every stage, or a whole stage.

    Args:
        name: what the person wrote.
        nodes: the nodes that there are.
        side: before a stage means before its first step; after it, after its last one.

    Raises:
        BadInput: if nothing is named so; the line lists what is.
    """
    nodes = list(nodes)
    if name in nodes:
        return [name]
    if name in STAGE_NAMES:
        return [f"{name}{SEPARATOR}{'open' if side == 'before' else 'close'}"]
    found = [node for node in nodes if node.endswith(f"{SEPARATOR}{name}")]
    if found:
        return found
    steps = dict.fromkeys(node.rpartition(SEPARATOR)[2] for node in nodes)
    raise BadInput(
        f"no node {name!r}; name one of {', '.join(steps)} (in every stage), a stage ({', '.join(STAGE_NAMES)}), "
        f"or a step of one stage, such as {STAGE_NAMES[0]}{SEPARATOR}evaluator"
    )

"""The page about the graph, drawn from the code: `python -m egg_graph.drawing > docs/graph.md`."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import fields

from langchain_core.runnables.graph import Edge, Graph

from egg_graph.context import Context
from egg_graph.graph import build_egg_graph
from egg_graph.nodes import events
from egg_graph.stages import TENSOR_TILING, TUNING_STAGES
from egg_graph.steering.topology import SEPARATOR, STAGE_NAMES

TUNING = "hardware_tuning"
"""The second hierarchical stage of the paper. It is no node: a box around its three parts."""
START, END = "__start__", "__end__"

PAGE = """# The graph

This page is drawn from the code by `python -m egg_graph.drawing > docs/graph.md`; a test compares the two.

## The whole

Two hierarchical stages, the second in three parts. Each stage is drawn as one box here. Where chat models play the
team, the embedded expert's kernel is judged before the first call is paid: the `contender`, attempt 0 (knob
`expert_seed`).

```mermaid
{whole}
```

## One stage

Every stage has the same seven steps, with another objective, another system prompt, other metrics and other knobs.
It opens with these metrics of the kernel that it is handed, whichever stage judged it: profiled anew where kernels are
timed, elsewhere what follows from the compiled kernel (limits of occupancy, waves, how full the last wave is).
After the evaluator a run goes on to `repair`, to `optimize` or to `accept`; a spent budget leads to `accept`. A stage
that is left out goes from `open` to the next stage (`skip`); so do the tuning stages where nothing is timed and a model
would have to be paid, which one event, the summaries and the verdict tell (knob `tune_untimed`). A kernel at the task's
floor goes to the tuner at once (knob `near_floor`); so does, where a model would have to be paid, one that nothing times
and whose bound is the floor. Sources that differ in comments, docstrings and formatting alone
are one program, and judged once: such an attempt tells which one it repeats.
Where several coders draft side by side (knob `width`), the coder orders the drafts and the evaluator sorts them out;
each `draft` and each evaluation (`judge`) is a task of its own, and `rank` makes attempts of them: see
[the search](#the-search).
From the analyst a plan that changes the source goes to the coder (`rewrite`), one that only turns knobs to the tuner
(`sweep`), and so does a kernel that no plan would improve (`accept`).

```mermaid
{stage}
```

The steps are nodes of the one graph, named `stage.step`: `tensor_tiling.coder`. So a thread's history holds every step
of every role, and a run can [pause at it, be edited there and be forked from it](studio.md). `egg-graph graph --unfold`
draws all of them.

## The search

By default a run is a single trajectory: one kernel at a time, each from the best one before it or from the one that it
repairs. Its depth is `max_optimizations`, plans in each stage, and `max_repairs`, repairs in a row of one kernel.
No further plan is made where the kernel is at the task's floor (`near_floor`), where `patience` plans in a row brought
no better kernel, and where even the floor would save less of the time per dollar than `min_gain_per_dollar`. That one
compares the most that a plan could save, 1 - floor / time, with what a plan has cost in the run so far; both numbers
stand in the event `stage` with which the stage ends, in its summary and in the verdict.

With `width` N, N coders draft side by side, from the same brief, in every step that writes a seed or carries out a
plan; a repair stays one coder's. Each is told its number. Where the analyst has several plans, which it is asked for then,
each carries out another one; the coders beyond them take the first. With several models for the coder
(`--model coder=A --model coder=B`) the drafts are dealt to them in turn, and a kernel is repaired by its author.

| what | how |
| --- | --- |
| duplicates | drafts of one program, whatever their comments and formatting, are one: the others are dropped and told, and cost no evaluation; a program that the run has judged before is told as a repeat |
| evaluations | side by side as far as the evaluator can (`EvaluatorPool`, an evaluator elsewhere); what must be alone, such as a measurement, takes turns |
| the best | by the rule that ranks all kernels, and where none is right the one that passed most checks; it is the last attempt of its step, and the stage goes on with it |
| the others | attempts of the history with the same parent, each marked with the first attempt of its step (`beside`); a draft of the plan that went on is no dead end |
| budgets | never more drafts than attempts and requests are left; all drafts count together for every budget, and what is in flight when one is used up is all that may exceed it |
| a stopped run | each draft and each evaluation is kept as soon as it ends: none is paid twice |
| the embedded expert | writes one draft however often it is asked: a width is refused |

## The knobs of a run

Fields of `egg_graph.Context`: pass `context=Context(...)` to invoke or stream, name them in `optimize(...)`, or set
them in LangGraph Studio.

{knobs}

## The events of a run

`graph.stream(..., stream_mode="custom")` (with `subgraphs=True` inside a parent) and `optimize(..., on_event=...)`
report a run as it goes, in small dicts.

{events}
"""  # noqa: E501


def page() -> str:
    """Text of the page docs/graph.md."""
    told = (events.__doc__ or "").partition("\n\n")[2].strip()
    return PAGE.format(whole=draw_folded(), stage=draw_stage(), knobs=knobs(), events=told)


def draw_folded() -> str:
    """The graph with each stage as one node, as Mermaid text."""

    def fold(node: str) -> str:
        stage = node.partition(SEPARATOR)[0]
        return f"{TUNING}:{stage}" if stage in {one.name for one in TUNING_STAGES} else stage

    return _draw(_rename(build_egg_graph().get_graph(), fold))


def draw_unfolded() -> str:
    """The graph with every step, each stage in a box of its own, as Mermaid text."""

    def group(node: str) -> str:
        stage, _, step = node.partition(SEPARATOR)
        return f"{stage}:{step}" if stage in STAGE_NAMES and step else node

    return _draw(_rename(build_egg_graph().get_graph(), group))


def draw_stage() -> str:
    """The steps of one stage, as Mermaid text; what stands before and after it are start and end."""
    whole = build_egg_graph().get_graph()
    inside = f"{TENSOR_TILING.name}{SEPARATOR}"
    before = {edge.source for edge in whole.edges if edge.target.startswith(inside)}
    after = {edge.target for edge in whole.edges if edge.source.startswith(inside)}

    def cut(node: str) -> str:
        if node.startswith(inside):
            return node.removeprefix(inside)
        return END if node in after else START if node in before else ""

    return _draw(_rename(whole, cut))


def _rename(graph: Graph, name: Callable[[str], str]) -> Graph:
    """The graph with other names. Nodes of one name become one; those named "" are left out with their edges.

    Of several edges between two nodes one is drawn: an ordinary one where there is one, else without its label.
    """
    edges: dict[tuple[str, str], list[Edge]] = defaultdict(list)
    for edge in graph.edges:
        ends = name(edge.source), name(edge.target)
        if all(ends) and ends[0] != ends[1] and ends != (END, END):
            edges[ends].append(edge)
    renamed = Graph()
    for node in [START, *graph.nodes, END]:
        if (new := name(node) or node) in {end for ends in edges for end in ends} and new not in renamed.nodes:
            renamed.add_node(graph.nodes[START].data, id=new)
    for (source, target), several in edges.items():
        conditional = all(edge.conditional for edge in several)
        label = several[0].data if len(several) == 1 else None
        renamed.edges.append(Edge(source, target, label, conditional))
    return renamed


def _draw(graph: Graph) -> str:
    return graph.draw_mermaid().strip()


def knobs() -> str:
    """A table of the context's fields: name, default, description."""
    rows = [f"| `{f.name}` | `{f.default!r}` | {f.metadata['description']} |" for f in fields(Context)]
    return "\n".join(["| knob | default | is |", "| --- | --- | --- |", *rows])


if __name__ == "__main__":
    print(page(), end="")

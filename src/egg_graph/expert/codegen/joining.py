"""Concatenation without a copy: what makes a part writes it to its slice of the channels at once."""

from collections.abc import Mapping
from dataclasses import dataclass

from egg_graph.expert.capture.graph import CapturedGraph, Node, node_name
from egg_graph.expert.codegen.group import KernelCode
from egg_graph.expert.codegen.sizes import Scope

CHANNELS = 1
"""The dimension whose slices leave each sample in one piece."""


@dataclass(frozen=True)
class Joint:
    """One concatenation of channels."""

    node: Node
    parts: tuple[str, ...]
    """The nodes that are concatenated, in order."""
    bounds: tuple[tuple[int, ...], ...]
    """Where each part begins, and at last where all end, per capture."""

    def slices(self, scope: Scope) -> dict[str, str] | None:
        """Write each part's slice as an index; None where one follows from no tensor's size."""
        bounds = self._bounds(scope)
        if bounds is None:
            return None
        return {p: f"[:, {a}:{b}]" for p, a, b in zip(self.parts, bounds, bounds[1:], strict=False)}

    def shape(self, scope: Scope, samples: str) -> str | None:
        """Write the whole shape with this number of samples; None where it follows from no tensor's size."""
        bounds = self._bounds(scope)
        sizes = [scope.express(self.node.size(d)) for d in range(self.node.rank)]
        sizes[0] = samples
        sizes[CHANNELS] = bounds[-1] if bounds is not None else None
        return None if None in sizes else f"({', '.join(filter(None, sizes))})"

    def _bounds(self, scope: Scope) -> list[str] | None:
        """Write where parts begin and end: each by itself, or the last bound and the size of a part."""
        texts = ["0"]
        for begin, end in zip(self.bounds, self.bounds[1:], strict=False):
            size = scope.express(tuple(e - b for b, e in zip(begin, end, strict=True)))
            text = scope.express(end) or (size and f"{texts[-1]} + {size}")
            if text is None:
                return None
            texts.append(text)
        return texts


def joints(graph: CapturedGraph, codes: Mapping[str, KernelCode]) -> dict[str, Joint]:
    """Return the concatenations for which a kernel can write a part in place, by every such part."""
    writers = {code.returns[0] for code in codes.values() if code.into}
    found: dict[str, Joint] = {}
    for node in graph.nodes:
        parts = concatenated(graph, node)
        if parts and writers & set(parts):
            bounds = [(0,) * len(node.shapes)]
            for part in parts:
                bounds.append(tuple(a + b for a, b in zip(bounds[-1], graph[part].size(CHANNELS), strict=True)))
            joint = Joint(node, parts, tuple(bounds))
            found.update((part, joint) for part in parts if part in writers and feeds_only(graph, part, node))
    return found


def concatenated(graph: CapturedGraph, node: Node) -> tuple[str, ...]:
    """Return what a node concatenates along its channels; nothing if it does something else."""
    if node.base != "cat" or not node.shapes or node.rank < 3 or not isinstance(node.args[0], list):
        return ()
    dim = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)
    parts = tuple(node_name(arg) for arg in node.args[0])
    alike = len(set(parts)) == len(parts) and all(graph[p].dtype == node.dtype for p in parts)
    return parts if alike and dim in (CHANNELS, CHANNELS - node.rank) else ()


def feeds_only(graph: CapturedGraph, part: str, node: Node) -> bool:
    """Return whether nothing but a concatenation reads a part."""
    return graph.users[part] == (node.name,) and part not in graph.returned


def may_be_a_slice(graph: CapturedGraph, name: str) -> bool:
    """Return whether a tensor is needed nowhere but as one part of a concatenation of channels."""
    users = [graph[user] for user in graph.users[name]]
    return len(users) == 1 and name in concatenated(graph, users[0]) and feeds_only(graph, name, users[0])

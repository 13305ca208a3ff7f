"""The plan of a module: which groups become kernels, in which order, and how its docstring records that."""

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from textwrap import wrap

from egg_graph.expert.capture.graph import CapturedGraph, Node
from egg_graph.expert.codegen.fusion import is_moving
from egg_graph.expert.codegen.group import Group, KernelCode
from egg_graph.schema.syntax import syntax_tree


@dataclass(frozen=True)
class Plan:
    """The kernels of a module, by name, and what stays PyTorch."""

    graph: CapturedGraph
    groups: Mapping[str, Group]
    """In execution order. The name prefixes the kernel's functions and knobs."""
    dropped: tuple[str, ...] = ()
    """Groups that could have a kernel and stay PyTorch on request."""

    @property
    def left(self) -> tuple[Node, ...]:
        """Operators that stay PyTorch, without those that only move or rename elements."""
        taken = {n for group in self.groups.values() for n in group.nodes}
        return tuple(n for n in self.graph.nodes if n.name not in taken and not is_moving(n, self.graph))


def execution_order(plan: Plan) -> list[Group | Node]:
    """Return groups and single nodes in an order in which the operands of each come before it."""
    graph = plan.graph
    unit_of: dict[str, Group | Node] = {}
    for group in plan.groups.values():
        unit_of.update(dict.fromkeys(group.nodes, group))
    units: list[Group | Node] = []
    seen: set[int] = set()

    def visit(unit: Group | Node) -> None:
        if id(unit) in seen:
            return
        seen.add(id(unit))
        for name in unit.inputs:
            if not graph.is_placeholder(name):
                visit(unit_of.get(name, graph[name]))
        units.append(unit)

    for node in graph.nodes:
        visit(unit_of.get(node.name, node))
    return units


def plan_docstring(plan: Plan, kernels: Mapping[str, KernelCode]) -> str:
    """Write the module's docstring, in the form that `read_plan` parses."""
    lines = ['"""Triton kernels for the reference module, written by the embedded expert from its playbooks.', ""]
    for name, group in plan.groups.items():
        kind = f"{group.playbook}/{group.variant}" if group.variant else group.playbook
        lines.append(_short(f"{name} [{kind}]: {kernels[name].summary or kernels[name].function}"))
    lines += [line for proof in plan.graph.proofs for line in wrap(f"Folded: {proof}", 118, subsequent_indent="    ")]
    left = [node.base for node in plan.left]
    if left:
        lines.append(_short(f"Stays PyTorch: {', '.join(dict.fromkeys(left))}"))
    if plan.dropped:
        lines.append(f"Left to PyTorch: {', '.join(plan.dropped)}")  # whole: it is read again
    return "\n".join([*lines, '"""'])


def read_plan(source: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """Parse a module's docstring: variant by group name, and the groups dropped so far; both empty without a plan."""
    try:
        doc = ast.get_docstring(syntax_tree(source)) or ""
    except SyntaxError:
        return {}, ()
    groups = {m[1]: m[2] or "" for m in re.finditer(r"^(\w+) \[\w+(?:/(\w+))?\]:", doc, re.M)}
    dropped = re.search(r"^Left to PyTorch: (.*)$", doc, re.M)
    return groups, tuple(dropped[1].split(", ")) if dropped else ()


def _short(line: str) -> str:
    line = line.replace("\\", "/").replace('"""', "'''")
    return line if len(line) <= 118 else line[:117].rsplit(" ", 1)[0] + " …"

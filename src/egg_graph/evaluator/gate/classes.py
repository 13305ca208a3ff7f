"""What a candidate's classes may derive from and define."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from egg_graph.evaluator.gate.names import Names
from egg_graph.evaluator.gate.report import Report
from egg_graph.evaluator.gate.rules import METHODS, MODULE_METHODS

TENSORS = frozenset({"Tensor", "Parameter", "Buffer", "UninitializedParameter", "UninitializedBuffer"})
"""Classes of PyTorch whose subclasses could change what a result is."""


def check_class(node: ast.ClassDef, names: Names, report: Report) -> None:
    """Check bases, metaclass and members of a class definition."""
    is_module = False
    for base in node.bases:
        base = base.value if isinstance(base, ast.Subscript) else base
        base = base.func if isinstance(base, ast.Call) else base
        dotted = names.dotted(base)
        last = {name.split(".")[-1] for name in dotted}
        is_module |= any(name.startswith("torch.nn.") for name in dotted) or _is_own_module(base, names)
        if isinstance(base, ast.Name) and base.id == "Model" and not names.is_bound(base):
            report.refuse(node, "subclass of the reference Model", "subclass torch.nn.Module")
        elif any(name.startswith("torch.") for name in dotted) and any(
            name in TENSORS or name.endswith(("Tensor", "Mode")) for name in last
        ):
            report.refuse(node, f"subclass of {min(dotted)}", "results are plain tensors")
        elif any(name.startswith("triton.") for name in dotted):
            report.refuse(node, f"subclass of {min(dotted)}", "use kernels as they are")
        elif not dotted and not isinstance(base, ast.Name | ast.Attribute):
            report.refuse(node, "subclass of a computed class", "name the class")
    for keyword in node.keywords:
        if keyword.arg == "metaclass" and names.dotted(keyword.value) != {"abc.ABCMeta"}:
            report.refuse(node, "a metaclass", "write a plain class")
    for name, place in _members(node):
        if name in METHODS or (is_module and name in MODULE_METHODS):
            report.refuse(place, f"{node.name} defines {name}", "do the work in forward")


def _is_own_module(base: ast.expr, names: Names) -> bool:
    """Whether a base is one of the candidate's own classes that derives from torch.nn."""
    if not isinstance(base, ast.Name):
        return False
    for other in names.nodes:
        if isinstance(other, ast.ClassDef) and other.name == base.id:
            return any(d.startswith("torch.nn.") for b in other.bases for d in names.dotted(b))
    return False


def _members(node: ast.ClassDef) -> Iterator[tuple[str, ast.AST]]:
    """Yield the names that a class body defines or assigns, with their nodes."""
    for child in node.body:
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child.name, child
        elif isinstance(child, ast.Assign | ast.AnnAssign):
            targets = child.targets if isinstance(child, ast.Assign) else [child.target]
            yield from (
                (name.id, child) for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)
            )

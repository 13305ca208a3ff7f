"""What a candidate's names stand for, as far as its text tells: imports, and simple aliases of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeGuard

Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
SCOPES = (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
DEPTH = 8
"""Length of a chain of aliases that is followed."""
DEVICE_TYPES = frozenset({"cuda", "cpu"})
"""What the `type` of a torch.device may be here."""


class Names:
    """The bindings of every scope.

    It follows assignments, loops over literals, defaults of arguments and `self.x = …`. It follows no values through
    calls, containers that change, or closures.
    """

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.nodes = tuple(ast.walk(tree))
        """All nodes of the tree, which is walked once."""
        self.scope_of: dict[ast.AST, Scope] = {}
        self.parent: dict[Scope, Scope] = {}
        self.imports: dict[Scope, dict[str, str]] = {}
        self.values: dict[Scope, dict[str, list[ast.expr]]] = {}
        self.own_attributes: dict[str, list[ast.expr]] = {}
        """Attribute of self -> expressions that are assigned to it."""
        self.unpacked: set[tuple[Scope, str]] = set()
        """Local names of functions that are bound to what no text tells: parts of a value, turns of a loop."""
        self._dotted: dict[tuple[Scope, str, int], frozenset[str]] = {}
        self._strings: dict[tuple[Scope, str, int], frozenset[str] | None] = {}
        self._made_here: dict[tuple[Scope, str, int], bool] = {}
        self._of_self: dict[tuple[str, int], frozenset[str]] = {}
        # A name that is bound n times would otherwise be followed n ** DEPTH times.
        self._enter(tree, tree)

    def _enter(self, scope: Scope, node: ast.AST) -> None:
        self.imports.setdefault(scope, {})
        self.values.setdefault(scope, {})
        for child in ast.iter_child_nodes(node):
            self.scope_of[child] = scope
            self._bind(scope, child)
            if isinstance(child, SCOPES):
                self.parent[child] = scope
                self.imports[child], self.values[child] = {}, {}
                if not isinstance(child, ast.ClassDef | ast.Module):
                    self._arguments(child)
                self._enter(child, child)
            else:
                self._enter(scope, child)

    def _bind(self, scope: Scope, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                root = alias.name.split(".")[0]
                self.imports[scope][alias.asname or root] = alias.name if alias.asname else root
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                self.imports[scope][alias.asname or alias.name] = f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                self._assign(scope, target, node.value)
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            self._assign(scope, node.target, node.value)
        elif isinstance(node, ast.For | ast.comprehension):
            if isinstance(node, ast.For):
                self._unpack(scope, node.target)
            for element in _elements(node.iter):
                self._assign(scope, node.target, element)
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            self._unpack(scope, node.optional_vars)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            self.values[scope].setdefault(node.name, [])

    def _assign(self, scope: Scope, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self.values[scope].setdefault(target.id, []).append(value)
        elif isinstance(target, ast.Attribute) and _is_self(target.value):
            self.own_attributes.setdefault(target.attr, []).append(value)
        elif isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List):
            for part, its in zip(target.elts, value.elts, strict=False):
                self._assign(scope, part, its)
        elif isinstance(target, ast.Tuple | ast.List):
            self._unpack(scope, target)

    def _unpack(self, scope: Scope, target: ast.expr) -> None:
        """Note the names of a target; in a function alone, where no such name can be the builtin any more."""
        if not isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
            return
        names = {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}
        declared = {name for node in ast.walk(scope) if isinstance(node, ast.Global) for name in node.names}
        self.unpacked.update((scope, name) for name in names - declared)

    def _arguments(self, function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        given = function.args
        names = [*given.posonlyargs, *given.args]
        bound = self.values[function]
        for argument in (*names, *given.kwonlyargs, *filter(None, (given.vararg, given.kwarg))):
            bound[argument.arg] = []
        for argument, default in zip(reversed(names), reversed(given.defaults), strict=False):
            bound[argument.arg] = [default]
        for argument, keyword in zip(given.kwonlyargs, given.kw_defaults, strict=True):
            bound[argument.arg] = [keyword] if keyword is not None else []

    def is_bound(self, node: ast.Name) -> bool:
        """Return whether the candidate itself binds this name, so that it is no builtin."""
        return any(
            node.id in self.imports[s] or node.id in self.values[s] or (s, node.id) in self.unpacked
            for s in self._visible(node)
        )

    def dotted(self, node: ast.AST, depth: int = DEPTH) -> frozenset[str]:
        """Return dotted names of library parts that an expression may stand for; empty if there are none."""
        if depth == 0:
            return frozenset()
        if isinstance(node, ast.Name):
            return self._name(node, depth)
        if isinstance(node, ast.Attribute):
            found = frozenset(f"{base}.{node.attr}" for base in self.dotted(node.value, depth))
            if not found and _is_self(node.value):
                return self._own_attribute(node.attr, depth)
            return found
        if isinstance(node, ast.IfExp):
            return self._all([node.body, node.orelse], depth)
        if isinstance(node, ast.BoolOp):
            return self._all(node.values, depth)
        if isinstance(node, ast.NamedExpr | ast.Starred):
            return self.dotted(node.value, depth - 1)
        if isinstance(node, ast.Subscript):
            return self._all(list(_elements(node.value)), depth)
        if isinstance(node, ast.Call) and node.args and self.dotted(node.func, depth - 1) == {"functools.partial"}:
            return self.dotted(node.args[0], depth - 1)
        if isinstance(node, ast.Call) and _calls(node, "getattr") and len(node.args) > 1:
            names = self.strings(node.args[1]) or ()
            return frozenset(f"{base}.{name}" for base in self.dotted(node.args[0], depth - 1) for name in names)
        return frozenset()

    def strings(self, node: ast.AST, depth: int = DEPTH) -> frozenset[str] | None:
        """Return the literal strings that an expression may be; None if they cannot be known."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return frozenset({node.value})
        if isinstance(node, ast.Attribute) and node.attr == "type" and self._is_device(node.value):
            return DEVICE_TYPES
        if not isinstance(node, ast.Name) or depth == 0:
            return None
        for scope in self._visible(node):
            if node.id in self.values[scope]:
                key = scope, node.id, depth
                if key not in self._strings:
                    found = [self.strings(value, depth - 1) for value in self.values[scope][node.id]]
                    known = [strings for strings in found if strings is not None]
                    whole = found and len(known) == len(found)
                    self._strings[key] = frozenset().union(*known) if whole else None
                return self._strings[key]
        return None

    def _is_device(self, node: ast.expr) -> bool:
        """Return whether an expression is surely a torch.device: a call of it, or a name bound to such calls alone."""
        if isinstance(node, ast.Call):
            return self.dotted(node.func) == {"torch.device"}
        scope = self.scope_of.get(node)
        if not isinstance(node, ast.Name) or not isinstance(scope, ast.Module | ast.FunctionDef):
            return False
        made = [
            statement
            for statement in scope.body
            if isinstance(statement, ast.Assign)
            and isinstance(statement.value, ast.Call)
            and self._is_device(statement.value)
        ]
        bound = {id(target) for statement in made for target in statement.targets}
        binders = [inner for inner in ast.walk(scope) if _binds(inner, node.id)]
        return bool(binders) and all(id(b) in bound for b in binders) and min(b.lineno for b in binders) < node.lineno

    def made_here(self, node: ast.AST, depth: int = DEPTH) -> bool:
        """Return whether an object is the candidate's own: self, its own class or function, or a fresh instance."""
        if depth == 0:
            return False
        if _is_self(node):
            return not self.dotted(node)
        if isinstance(node, ast.Attribute):
            return self.made_here(node.value, depth) and not self.dotted(node)
        if not isinstance(node, ast.Name):
            return isinstance(node, ast.Call) and self._makes_own(node, depth)
        for scope in self._visible(node):
            if node.id in self.values[scope]:
                key = scope, node.id, depth
                if key not in self._made_here:
                    self._made_here[key] = self._is_made_here(self.values[scope][node.id], node.id, depth)
                return self._made_here[key]
        return False

    def _is_made_here(self, values: list[ast.expr], name: str, depth: int) -> bool:
        if values:
            return all(self.made_here(value, depth - 1) for value in values)
        return any(isinstance(d, ast.ClassDef | ast.FunctionDef) and d.name == name for d in self.scope_of)

    def _makes_own(self, call: ast.Call, depth: int) -> bool:
        parts = self.dotted(call.func)
        if parts:  # nn.Linear(…), SimpleNamespace(…): a fresh object of a library's class
            return all(part.split(".")[-1][:1].isupper() for part in parts)
        return isinstance(call.func, ast.Name) and self.made_here(call.func, depth - 1)

    def _name(self, node: ast.Name, depth: int) -> frozenset[str]:
        for scope in self._visible(node):
            if node.id in self.imports[scope]:
                return frozenset({self.imports[scope][node.id]})
            if node.id in self.values[scope]:
                key = scope, node.id, depth
                if key not in self._dotted:
                    self._dotted[key] = self._all(self.values[scope][node.id], depth)
                return self._dotted[key]
        return frozenset()

    def _own_attribute(self, name: str, depth: int) -> frozenset[str]:
        key = name, depth
        if key not in self._of_self:
            self._of_self[key] = self._all(self.own_attributes.get(name, []), depth)
        return self._of_self[key]

    def _all(self, nodes: list[ast.expr], depth: int) -> frozenset[str]:
        return frozenset().union(*(self.dotted(node, depth - 1) for node in nodes)) if nodes else frozenset()

    def _visible(self, node: ast.AST) -> Iterator[Scope]:
        scope: Scope | None = self.scope_of.get(node)
        while scope is not None:
            yield scope
            scope = self.parent.get(scope)


def _is_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _binds(node: ast.AST, name: str) -> TypeGuard[ast.stmt | ast.expr]:
    """Whether a node binds or deletes a name, an argument aside."""
    if isinstance(node, ast.Name):
        return node.id == name and not isinstance(node.ctx, ast.Load)
    if isinstance(node, ast.Global | ast.Nonlocal):
        return name in node.names
    return name in (getattr(node, "name", None), getattr(node, "asname", None), getattr(node, "rest", None))


def _calls(node: ast.Call, name: str) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id == name


def _elements(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the elements of a literal list, tuple or set, or the values of a literal dictionary."""
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        yield from node.elts
    elif isinstance(node, ast.Dict):
        yield from node.values

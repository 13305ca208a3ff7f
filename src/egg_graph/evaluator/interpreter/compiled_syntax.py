"""How a kernel's syntax tree is rewritten so that Python executes it with the meaning that the compiler gives it.

One case for every visitor of `triton.compiler.code_generator.CodeGenerator` that differs from Python. What the compiler
has no visitor for becomes a refusal, which takes effect only where the statement is reached: like the compiler, which
does not visit the branches that it leaves out.
"""

import ast
import builtins
from collections.abc import Container, Iterable
from collections.abc import Set as AbstractSet
from typing import Any

MEANING = "compiled python"
"""Name of the module `compiled_python` in a kernel's globals. No candidate can define it: it is no identifier."""
CONDITION = "condition of a ternary"
"""Name of the local that holds the condition of `a if condition else b` while it is evaluated."""
BUILTINS = {"min": "minimum", "max": "maximum", "print": "show", "int": "integer", "float": "floating"}
"""Builtin functions that a kernel may call -> what they mean in it."""
SAME_BUILTINS = frozenset({"len", "list", "range", "isinstance", "getattr", "hasattr"})
"""Builtin functions that mean the same in a kernel."""
REFUSED_STATEMENTS: dict[type[ast.AST], str] = {
    ast.Break: "`break`", ast.Continue: "`continue`", ast.Try: "`try`", ast.TryStar: "`try`", ast.Raise: "`raise`",
    ast.Delete: "`del`", ast.Global: "`global`", ast.Nonlocal: "`nonlocal`", ast.Import: "`import`",
    ast.ImportFrom: "`import`", ast.ClassDef: "a class", ast.FunctionDef: "a nested function",
    ast.AsyncFunctionDef: "a nested function", ast.AsyncFor: "`async for`", ast.AsyncWith: "`async with`",
    ast.Match: "`match`",
}  # fmt: skip
REFUSED_EXPRESSIONS: dict[type[ast.AST], str] = {
    ast.NamedExpr: "`:=`", ast.Lambda: "`lambda`", ast.Dict: "a dictionary", ast.Set: "a set",
    ast.DictComp: "a dictionary comprehension", ast.SetComp: "a set comprehension",
    ast.GeneratorExp: "a generator expression", ast.Await: "`await`", ast.Yield: "`yield`", ast.YieldFrom: "`yield`",
}  # fmt: skip


def rewrite(tree: ast.Module, known: Container[str]) -> None:
    """Give the functions of a module the compiled meaning, in place.

    Args:
        tree: a module that holds one kernel or device function.
        known: names that the function finds in its globals, and that hide builtin ones.
    """
    for function in tree.body:
        if isinstance(function, ast.FunctionDef):
            meaning = CompiledMeaning(_Known(known, _local_names(function)), _not_tensors(function))
            meaning.visit_body(function)
    ast.fix_missing_locations(tree)


class _Known:
    """Names that hide builtin ones: globals, and the function's own locals."""

    def __init__(self, *scopes: Container[str]) -> None:
        self.scopes = scopes

    def __contains__(self, name: object) -> bool:
        return any(name in scope for scope in self.scopes)


def _local_names(function: ast.FunctionDef) -> set[str]:
    return _stored([function]) | {n.arg for n in ast.walk(function) if isinstance(n, ast.arg)}


def _stored(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that some statements assign."""
    inner = (n for node in nodes for n in ast.walk(node))
    return {n.id for n in inner if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _not_tensors(function: ast.FunctionDef) -> set[str]:
    """Return the names that are assigned what may be no tensor: None, a part of something, another name, a choice."""
    values = (ast.Constant, ast.Attribute, ast.Name, ast.IfExp)
    assigned = [n for n in ast.walk(function) if isinstance(n, ast.Assign) and isinstance(n.value, values)]
    return _stored(target for node in assigned for target in node.targets)


class CompiledMeaning(ast.NodeTransformer):
    """Replaces what the compiler gives another meaning than Python, or none.

    Args:
        known: names that are no builtins.
        not_tensors: names that may hold None or a dtype somewhere.
    """

    def __init__(self, known: Container[str], not_tensors: AbstractSet[str]) -> None:
        self.known = known
        self.not_tensors = not_tensors

    def visit(self, node: ast.AST) -> Any:
        """Rewrite one node."""
        if what := REFUSED_STATEMENTS.get(type(node), ""):
            return _statement(node, _call("refuse", node, ast.Constant(what)))
        if what := REFUSED_EXPRESSIONS.get(type(node), ""):
            return _call("refuse", node, ast.Constant(what))
        return super().visit(node)

    def visit_body(self, function: ast.FunctionDef) -> None:
        """Rewrite the statements of a function, but neither its arguments nor its decorators."""
        body = ast.Module(function.body, [])
        self.generic_visit(body)
        function.body = body.body

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        """`x = 1` makes a scalar tensor. `x, y = t` takes the first two items of a longer tuple."""
        if len(node.targets) != 1:
            return _statement(node, _call("refuse", node, ast.Constant("an assignment to several targets")))
        if what := _refused_target(node.targets[0]):
            return _statement(node, _call("refuse", node, ast.Constant(what)))
        node.value = _call("assigned", node, self.visit(node.value))
        if isinstance(node.targets[0], ast.Tuple):
            node.value = _call("first_items", node, node.value, _pattern(node.targets[0]))
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        """`x: tl.constexpr = 1` keeps a number; any other annotation means nothing."""
        if what := _refused_target(node.target):
            return _statement(node, _call("refuse", node, ast.Constant(what)))
        value = self.visit(node.value) if node.value is not None else ast.Constant(None)
        value = _call("annotated", node, self.visit(node.annotation), value)
        return ast.copy_location(ast.Assign([node.target], value), node)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        """`x += 1` is `x = x + 1`."""
        if not isinstance(node.target, ast.Name):
            what = _refused_target(node.target) or "an assignment to this target"
            return _statement(node, _call("refuse", node, ast.Constant(what)))
        held = ast.copy_location(ast.Name(node.target.id, ast.Load()), node)
        value = ast.copy_location(ast.BinOp(held, node.op, self.visit(node.value)), node)
        return ast.copy_location(ast.Assign([node.target], _call("assigned", node, value)), node)

    def visit_If(self, node: ast.If) -> ast.stmt | list[ast.stmt]:
        """A condition is a constant or a scalar tensor.

        After a condition at run time, a name that one branch alone assigns holds what it held before, unless that was a
        tensor: the compiler joins the branches' tensors only.
        """
        names = sorted((_stored(node.body) ^ _stored(node.orelse)) & self.not_tensors)
        self.generic_visit(node)
        if not names:
            node.test = _call("truth", node.test, node.test)
            return node
        place = f"{node.lineno}:{node.col_offset}"
        condition, kept = f"condition at {place}", f"kept at {place}"
        elements: list[ast.expr] = [ast.Constant(name) for name in names]
        before = _call("kept", node, ast.Name(condition, ast.Load()), ast.Tuple(elements, ast.Load()))
        begin = [_assign(condition, node.test, node), _assign(kept, before, node)]
        node.test = _call("truth", node.test, ast.Name(condition, ast.Load()))
        return [*begin, node, *(_restored(name, kept, node) for name in names)]

    def visit_While(self, node: ast.While) -> ast.stmt | list[ast.stmt]:
        """A condition is a scalar tensor; there is no `else`. The loop is watched, for it may wait for ever."""
        if node.orelse:
            return _statement(node, _call("refuse", node, ast.Constant("`else` after a loop")))
        self.generic_visit(node)
        watched = f"loop at {node.lineno}:{node.col_offset}"
        begin = _assign(watched, _call("WhileLoop", node), node)
        goes_on = ast.Attribute(ast.Name(watched, ast.Load()), "goes_on", ast.Load())
        node.test = ast.copy_location(ast.Call(goes_on, [node.test], []), node.test)
        return [begin, node]

    def visit_For(self, node: ast.For) -> ast.stmt:
        """A loop runs over a range, whose numbers are scalar tensors unless the compiler unrolls it."""
        if node.orelse:
            return _statement(node, _call("refuse", node, ast.Constant("`else` after a loop")))
        if not isinstance(node.iter, ast.Call) or not isinstance(node.target, ast.Name):
            what = "a loop over anything but range, tl.range or tl.static_range"
            return _statement(node, _call("refuse", node, ast.Constant(what)))
        self.generic_visit(node)
        node.iter = _call("loop", node.iter, node.iter.func, *node.iter.args, keywords=node.iter.keywords)
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        """`assert` is a device assertion."""
        self.generic_visit(node)
        message = [node.msg] if node.msg is not None else []
        return _statement(node, _call("assertion", node, node.test, *message))

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        """`and`, `or` are elementwise; constants end the evaluation early."""
        self.generic_visit(node)
        name = "conjunction" if isinstance(node.op, ast.And) else "disjunction"
        return _call(name, node, *[_deferred(value) for value in node.values])

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        """`not` is elementwise."""
        self.generic_visit(node)
        return _call("negation", node, node.operand) if isinstance(node.op, ast.Not) else node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        """A choice at run time makes a tensor. The condition is evaluated first, and kept in a local."""
        self.generic_visit(node)
        condition = ast.NamedExpr(ast.Name(CONDITION, ast.Store()), node.test)
        node.test = _call("truth", node, ast.Name(CONDITION, ast.Load()))
        return _call("ternary", node, condition, node)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        """One comparison at a time; `is` looks into constants; there is no `in`."""
        if len(node.ops) > 1:
            cure = ast.Constant("Join two comparisons with &.")
            return _call("refuse", node, ast.Constant("a chain of comparisons"), cure)
        operator = node.ops[0]
        if isinstance(operator, ast.In | ast.NotIn):
            return _call("refuse", node, ast.Constant("`in`"))
        self.generic_visit(node)
        if isinstance(operator, ast.Is | ast.IsNot):
            same = _call("identical", node, node.left, node.comparators[0])
            return ast.copy_location(ast.UnaryOp(ast.Not(), same), node) if isinstance(operator, ast.IsNot) else same
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Of Python's builtin names, a kernel knows a few."""
        if not isinstance(node.ctx, ast.Load) or node.id in self.known or not hasattr(builtins, node.id):
            return node
        if node.id in BUILTINS:
            return _meaning(BUILTINS[node.id], node)
        if node.id in SAME_BUILTINS:
            return node
        return _call("refuse", node, ast.Constant(f"Python's `{node.id}`"))

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """Constants have a `.value`."""
        self.generic_visit(node)
        if node.attr == "value" and isinstance(node.ctx, ast.Load):
            return _call("value_attribute", node, node.value)
        return node

    def visit_ListComp(self, node: ast.ListComp) -> ast.expr:
        """A comprehension runs over one tuple. The compiler takes no notice of its conditions."""
        if len(node.generators) != 1 or not isinstance(node.generators[0].target, ast.Name):
            return _call("refuse", node, ast.Constant("a nested comprehension"))
        self.generic_visit(node)
        source = node.generators[0]
        source.iter, source.ifs = _call("items", node, source.iter), []
        return node


def _refused_target(target: ast.expr) -> str:
    """Say what is wrong with the target of an assignment; empty if the compiler knows it."""
    if isinstance(target, ast.Name):
        return ""
    if isinstance(target, ast.Tuple):
        return next(filter(None, map(_refused_target, target.elts)), "")
    words: dict[type[ast.expr], str] = {
        ast.Subscript: "an assignment to an element",
        ast.Attribute: "an assignment to an attribute",
    }
    return words.get(type(target), "an assignment to this target")


def _pattern(target: ast.expr) -> ast.expr:
    """The tuples of a target as tuples of None."""
    if isinstance(target, ast.Tuple):
        return ast.Tuple([_pattern(element) for element in target.elts], ast.Load())
    return ast.Constant(None)


def _meaning(name: str, place: ast.AST) -> ast.expr:
    return ast.copy_location(ast.Attribute(ast.Name(MEANING, ast.Load()), name, ast.Load()), place)


def _call(name: str, place: ast.AST, *arguments: ast.expr, keywords: list[ast.keyword] | None = None) -> ast.Call:
    """Make a call of a function of `compiled_python`."""
    return ast.copy_location(ast.Call(_meaning(name, place), list(arguments), keywords or []), place)


def _statement(place: ast.AST, value: ast.expr) -> ast.stmt:
    return ast.copy_location(ast.Expr(value), place)


def _assign(name: str, value: ast.expr, place: ast.AST) -> ast.stmt:
    return ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], value), place)


def _restored(name: str, kept: str, place: ast.AST) -> ast.stmt:
    """Make `if name in kept: name = kept[name]`."""
    held, key = ast.Name(kept, ast.Load()), ast.Constant(name)
    restore = _assign(name, ast.Subscript(held, key, ast.Load()), place)
    return ast.copy_location(ast.If(ast.Compare(key, [ast.In()], [held]), [restore], []), place)


def _deferred(value: ast.expr) -> ast.expr:
    """Make a function of no arguments that evaluates an expression."""
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.copy_location(ast.Lambda(nothing, value), value)

"""The static gate: what can be told about a candidate from its syntax tree, before any of it runs.

It reads constructs, never words: a docstring may say anything. It is a tripwire for broken contracts and for Python
that Triton cannot compile; what it lets through still runs in a child process that holds no answers.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator

from egg_graph.evaluator.gate.names import Names
from egg_graph.evaluator.gate.rules import (
    ASKS,
    ATTRIBUTES,
    BUILTINS,
    COPIES_ATTRIBUTES,
    DUNDERS,
    LIBRARIES,
    METHODS,
    MODULE_METHODS,
    NEVER_ASKED_FOR,
    ON_NOTHING,
    ROOTS,
    import_refused,
    is_module,
    use_refused,
)
from egg_graph.schema import Candidate, Finding, FindingKind

TEST_NAMES = frozenset({"get_inputs", "get_init_inputs", "main", "test", "run_test", "benchmark"})
TENSORS = frozenset({"Tensor", "Parameter", "Buffer", "UninitializedParameter", "UninitializedBuffer"})
HIDDEN_FIELD = re.compile(r"\{[^{}]*[.\[]_")
"""A field of a format string that reads a private attribute."""


def check(candidate: Candidate) -> tuple[Finding, ...]:
    """All that is wrong with a candidate's text; empty if the gate is open."""
    if not candidate.source.strip():
        return (Finding(kind="no_code", message=candidate.problem or "there is no source"),)
    try:
        tree = ast.parse(candidate.source)
        if another := _another_reading(candidate.source):
            return (another,)
        gate = _Gate(tree)
        gate.run()
    except (SyntaxError, ValueError) as error:
        return (_syntax(error),)
    except (RecursionError, MemoryError):
        return (Finding(kind="syntax_error", message="nested too deeply to be read"),)
    return tuple(gate.findings)


def _another_reading(source: str) -> Finding | None:
    """A comment in the first two lines may name an encoding, and Python reads the file by it: as other code, perhaps.

    Raises:
        SyntaxError: if there is no such encoding.
    """
    raw = source.encode()
    encoding, _ = tokenize.detect_encoding(io.BytesIO(raw).readline)
    if encoding.startswith("utf-8") or raw.decode(encoding, "replace") == source:
        return None
    return Finding(
        kind="forbidden_construct",
        message=f"read as {encoding}, which a comment at its top asks for, the source is another one",
        where="line 1",
        cure="leave the comment out: source code is UTF-8",
    )


def _syntax(error: SyntaxError | ValueError) -> Finding:
    if not isinstance(error, SyntaxError):
        return Finding(kind="syntax_error", message=f"not valid Python: {error}")
    text = f": {error.text.strip()[:120]}" if error.text else ""
    return Finding(kind="syntax_error", message=f"not valid Python: {error.msg}{text}", where=f"line {error.lineno}")


class _Gate:
    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.names = Names(tree)
        self.findings: list[Finding] = []
        self.called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        self.refused: set[int] = set()
        """Names already told of, attribute chains, and their shorter beginnings."""

    def run(self) -> None:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._import(node)
        self._tests()
        for node in ast.walk(self.tree):
            self._construct(node)
        kernels = list(self._kernels())
        if not kernels:
            self._add("no_triton_kernel", self.tree, "no function is decorated with @triton.jit", "write one")
        for kernel in kernels:
            self._kernel_body(kernel)
        self._entry_point()

    def _add(self, kind: FindingKind, node: ast.AST, message: str, cure: str = "") -> None:
        line = getattr(node, "lineno", None)
        self.findings.append(Finding(kind=kind, message=message, where=f"line {line}" if line else "", cure=cure))

    def _refuse(self, node: ast.AST, message: str, cure: str = "remove it") -> None:
        self._add("forbidden_construct", node, message, cure)

    # ------------------------------------------------------------------------------------------------ imports

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        if isinstance(node, ast.ImportFrom) and node.level:
            self._add("forbidden_import", node, "relative import", "a candidate is one module, on its own")
            return
        for alias in node.names:
            module, name = (node.module or "", alias.name) if isinstance(node, ast.ImportFrom) else (alias.name, None)
            why = import_refused(module, name)
            if why and (name == "*" or not use_refused(f"{module}.{name}" if name else module)):
                self._add("forbidden_import", node, f"import of {module}", why)
            elif why:
                self._refuse(node, f"import of {module}{'.' + name if name else ''}: {why}")
            elif name == "*" and module.split(".")[0] in LIBRARIES and not module.startswith("triton.language"):
                self._add("forbidden_import", node, f"import of everything in {module}", "import names one by one")
            else:
                continue
            return

    # --------------------------------------------------------------------------------------------- constructs

    def _construct(self, node: ast.AST) -> None:
        if isinstance(node, ast.Name):
            self._name(node)
        elif isinstance(node, ast.Attribute):
            self._attribute(node)
        elif isinstance(node, ast.Call):
            self._call(node)
        elif isinstance(node, ast.ClassDef):
            self._class(node)
        elif isinstance(node, ast.Return | ast.Yield | ast.YieldFrom) and node.value is not None:
            self._handed_on(node.value)
        elif isinstance(node, ast.Lambda):
            self._handed_on(node.body)
        elif isinstance(node, ast.MatchClass):
            for attribute in node.kwd_attrs:  # `case object(os=x)` reads an attribute, too
                self._reading(node, attribute, node.cls, frozenset())
        elif isinstance(node, ast.FunctionDef) and node in self.tree.body and node.name.startswith("__"):
            self._refuse(node, f"module-level {node.name}()")

    def _name(self, node: ast.Name) -> None:
        if self.names.is_bound(node) or id(node) in self.refused:
            return
        if node.id in BUILTINS:
            word = "call of" if id(node) in self.called else "use of"
            self._refuse(node, f"{word} {node.id}{'()' if word == 'call of' else ''}", "write the code out instead")
        elif node.id in ("getattr", "setattr", "delattr") and id(node) not in self.called:
            self._refuse(node, f"{node.id} as a value", "name the attribute where it is used")

    def _attribute(self, node: ast.Attribute) -> None:
        dotted = self.names.dotted(node)
        if not isinstance(node.ctx, ast.Load):
            self._store(node, dotted)
        self._reading(node, node.attr, node.value, dotted)

    def _reading(self, node: ast.AST, attribute: str, owner: ast.expr, dotted: frozenset[str]) -> None:
        """An attribute that is read, in whatever way."""
        if id(node) in self.refused:
            return
        why = next((why for name in sorted(dotted) if (why := use_refused(name))), "")
        if why:
            self._refuse(node, f"use of {min(dotted)}: {why}")
        elif id(node) not in self.called and dotted & COPIES_ATTRIBUTES.keys():
            self._refuse(node, f"{min(dotted)} as a value", "call it where it is needed")
        elif attribute in ON_NOTHING:
            self._refuse(node, f"use of {attribute}: {ON_NOTHING[attribute]}")
        elif attribute.lstrip("_") in NEVER_ASKED_FOR and not self.names.made_here(owner):
            self._refuse(node, f"use of {attribute}: a library's own imports are not the candidate's")
        elif attribute in ATTRIBUTES and not self.names.made_here(owner):
            self._refuse(node, f"use of {attribute}: {ATTRIBUTES[attribute]}")
        elif _is_dunder(attribute) and attribute not in DUNDERS and not self._is_harmless(node):
            self._refuse(node, f"use of {attribute}", "use the public interface")
        else:
            return
        while isinstance(node, ast.Attribute):  # one finding per chain
            self.refused.add(id(node.value))
            node = node.value

    def _is_harmless(self, node: ast.AST) -> bool:
        """`x.__class__.__name__`, and `object.__setattr__(self, …)`, as frozen dataclasses need it."""
        if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load):
            return False
        for outer in ast.walk(self.tree):
            if node.attr == "__class__" and isinstance(outer, ast.Attribute) and outer.value is node:
                return outer.attr in ("__name__", "__qualname__")
            if node.attr == "__setattr__" and isinstance(outer, ast.Call) and outer.func is node and outer.args:
                return isinstance(outer.args[0], ast.Name) and outer.args[0].id == "self"
        return False

    def _store(self, node: ast.Attribute, dotted: frozenset[str]) -> None:
        word = "assignment to" if isinstance(node.ctx, ast.Store) else "deletion of"
        if any(name.split(".")[0] in ROOTS for name in dotted):
            cure = (
                "leave the library as it is: its flags are set as the task's precision asks, for your calls of it too"
            )
            self._refuse(node, f"{word} {min(dotted)}", cure)
            self.refused.add(id(node))
        elif self._is_a_class_or_module(node.value):
            self._refuse(node, f"{word} {node.attr} of a class that is not the candidate's own", "leave it as it is")

    def _is_a_class_or_module(self, node: ast.expr) -> bool:
        """What is surely no object of the candidate's own: `type(x)`, `x.__class__`, a part of a library."""
        if isinstance(node, ast.Call):
            called = isinstance(node.func, ast.Name) and node.func.id == "type"
            return called and not (node.args and self.names.made_here(node.args[0]))
        if isinstance(node, ast.Attribute) and node.attr == "__class__":
            return not self.names.made_here(node.value)
        return any(name.split(".")[0] in ROOTS for name in self.names.dotted(node))

    def _call(self, node: ast.Call) -> None:
        function = node.func
        if not (isinstance(function, ast.Name) and function.id in ASKS and not self.names.is_bound(function)):
            for value in (*node.args, *(keyword.value for keyword in node.keywords)):
                self._handed_on(value)
        if isinstance(function, ast.Name) and not self.names.is_bound(function):
            if function.id == "getattr" and len(node.args) > 1:
                self._getattr(node)
            elif function.id in ("setattr", "delattr"):
                self._setattr(node, function.id)
            elif function.id == "type" and len(node.args) > 1:
                self._refuse(node, "a class made by type()", "write the class out")
        elif isinstance(function, ast.Attribute) and function.attr in ("format", "format_map"):
            self._format(node, function.value)
        self._copied_attributes(node)
        own_clock = any(keyword.arg == "do_bench" for keyword in node.keywords)
        if own_clock and any(name.endswith(".autotune") for name in self.names.dotted(function)):
            self._refuse(node, "autotune with a clock of its own", "leave do_bench out")

    def _copied_attributes(self, node: ast.Call) -> None:
        for name in self.names.dotted(node.func) & COPIES_ATTRIBUTES.keys():
            starred = any(isinstance(argument, ast.Starred) for argument in node.args)
            if node.keywords or starred or len(node.args) > COPIES_ATTRIBUTES[name]:
                self._refuse(node, f"{name}() that is told which attributes to set", "leave these arguments out")

    def _handed_on(self, value: ast.expr) -> None:
        """A library itself as an argument or a result: what is done to it there is done under another name."""
        if isinstance(value, ast.Tuple | ast.List | ast.Set):
            for element in value.elts:
                self._handed_on(element)
        elif isinstance(value, ast.Dict):
            for element in value.values:
                self._handed_on(element)
        elif modules := sorted(filter(is_module, self.names.dotted(value))):
            self._refuse(value, f"{modules[0]} itself as a value", "name the function of it that is needed")

    def _getattr(self, node: ast.Call) -> None:
        owner, name = node.args[:2]
        strings = self.names.strings(name)
        if strings is None:
            if not self.names.made_here(owner):
                self._refuse(node, "getattr() with a computed name", "write the attribute's name")
            return
        for attribute in sorted(strings):
            dotted = frozenset(f"{base}.{attribute}" for base in self.names.dotted(owner))
            self._reading(node, attribute, owner, dotted)

    def _setattr(self, node: ast.Call, word: str) -> None:
        if not node.args or not self.names.made_here(node.args[0]):
            self._refuse(node, f"call of {word}() on what is not the candidate's own", "assign to self")
            return
        for attribute in sorted((self.names.strings(node.args[1]) or ()) if len(node.args) > 1 else ()):
            if attribute in ON_NOTHING or _is_dunder(attribute):
                self._refuse(node, f"{word}() of {attribute}", "use the public interface")

    def _format(self, node: ast.Call, text: ast.expr) -> None:
        strings = self.names.strings(text)
        if strings is None:
            strings = frozenset(_literals(self.tree)) if not isinstance(text, ast.JoinedStr) else None
        if any(HIDDEN_FIELD.search(string) for string in strings or ()):
            self._refuse(node, "a format string that reads private attributes")

    # ------------------------------------------------------------------------------------------------- classes

    def _class(self, node: ast.ClassDef) -> None:
        is_module = False
        for base in node.bases:
            base = base.value if isinstance(base, ast.Subscript) else base
            base = base.func if isinstance(base, ast.Call) else base
            dotted = self.names.dotted(base)
            last = {name.split(".")[-1] for name in dotted}
            is_module |= any(name.startswith("torch.nn.") for name in dotted) or self._is_own_module(base)
            if isinstance(base, ast.Name) and base.id == "Model" and not self.names.is_bound(base):
                self._refuse(node, "subclass of the reference Model", "subclass torch.nn.Module")
            elif any(name.startswith("torch.") for name in dotted) and any(
                name in TENSORS or name.endswith(("Tensor", "Mode")) for name in last
            ):
                self._refuse(node, f"subclass of {min(dotted)}", "results are plain tensors")
            elif any(name.startswith("triton.") for name in dotted):
                self._refuse(node, f"subclass of {min(dotted)}", "use kernels as they are")
            elif not dotted and not isinstance(base, ast.Name | ast.Attribute):
                self._refuse(node, "subclass of a computed class", "name the class")
        for keyword in node.keywords:
            if keyword.arg == "metaclass" and self.names.dotted(keyword.value) != {"abc.ABCMeta"}:
                self._refuse(node, "a metaclass", "write a plain class")
        for name, place in _members(node):
            if name in METHODS or (is_module and name in MODULE_METHODS):
                self._refuse(place, f"{node.name} defines {name}", "do the work in forward")

    def _is_own_module(self, base: ast.expr) -> bool:
        """Whether a base is a class of the candidate that is a torch.nn.Module in turn."""
        if not isinstance(base, ast.Name):
            return False
        for other in ast.walk(self.tree):
            if isinstance(other, ast.ClassDef) and other.name == base.id:
                return any(d.startswith("torch.nn.") for b in other.bases for d in self.names.dotted(b))
        return False

    def _tests(self) -> None:
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef) and (node.name in TEST_NAMES or node.name.startswith("test_")):
                if not any(self._is_jit(d) for d in node.decorator_list):
                    self._add(
                        "test_code",
                        node,
                        f"test code: {node.name}()",
                        "leave only imports, kernels, wrappers, ModelNew",
                    )
            elif isinstance(node, ast.If):
                asked = [n for n in ast.walk(node.test) if isinstance(n, ast.Name) and n.id == "__name__"]
                if asked:
                    self._add("test_code", node, 'test code: `if __name__ == "__main__"`', "leave it out")
                    self.refused.update(map(id, asked))

    # ------------------------------------------------------------------------------------------------ kernels

    def _is_jit(self, node: ast.expr) -> bool:
        dotted = self.names.dotted(node.func if isinstance(node, ast.Call) else node)
        return not dotted.isdisjoint(("triton.jit", "triton.runtime.jit.jit", "triton.runtime.jit"))

    def _kernels(self) -> Iterator[ast.FunctionDef]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef) and any(self._is_jit(d) for d in node.decorator_list):
                yield node

    def _kernel_body(self, kernel: ast.FunctionDef) -> None:
        words: dict[type[ast.AST], str] = {ast.Break: "break", ast.Continue: "continue", ast.Return: "return"}
        for loop in ast.walk(kernel):
            if not isinstance(loop, ast.For | ast.While):
                continue
            for node in (n for child in loop.body for n in ast.walk(child)):
                word = words.get(type(node))
                if word is not None:
                    self._add(
                        "unsupported_in_kernel",
                        node,
                        f"`{word}` inside a loop of kernel {kernel.name}: Triton cannot compile it",
                        "compute on every iteration and mask out what must not count",
                    )
                    return

    def _entry_point(self) -> None:
        classes = {node.name: node for node in self.tree.body if isinstance(node, ast.ClassDef)}
        model = classes.get("ModelNew")
        if model is None:
            cure = "define `class ModelNew(nn.Module)` with the reference's __init__ and forward"
            self._add("missing_entry_point", self.tree, "there is no class ModelNew", cure)
        elif not any(isinstance(node, ast.FunctionDef) and node.name == "forward" for node in model.body):
            self._add(
                "missing_entry_point", model, "ModelNew has no forward", "define it with the reference's arguments"
            )


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _members(node: ast.ClassDef) -> Iterator[tuple[str, ast.AST]]:
    """What a class body defines or assigns."""
    for child in node.body:
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child.name, child
        elif isinstance(child, ast.Assign | ast.AnnAssign):
            targets = child.targets if isinstance(child, ast.Assign) else [child.target]
            yield from (
                (name.id, child) for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)
            )


def _literals(tree: ast.Module) -> Iterator[str]:
    """String literals that are no docstrings."""
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
            yield node.value

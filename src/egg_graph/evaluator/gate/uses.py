"""What a candidate's code uses: imports, names, attributes, calls, and libraries that it hands on."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from egg_graph.evaluator.gate.classes import check_class
from egg_graph.evaluator.gate.names import Names
from egg_graph.evaluator.gate.report import Report
from egg_graph.evaluator.gate.rules import (
    ASKS,
    ATTRIBUTES,
    BUILTINS,
    COPIES_ATTRIBUTES,
    DUNDERS,
    LIBRARIES,
    NEVER_ASKED_FOR,
    NO_COMPILER,
    ON_NOTHING,
    OWN_OPERATORS,
    READS_ENVIRONMENT,
    ROOTS,
    TOOLS_VARIABLES,
    import_refused,
    is_module,
    use_refused,
)

LOGGER = "logging.getLogger"
HIDDEN_FIELD = re.compile(r"\{[^{}]*[.\[]_")
"""Matches a field of a format string that reads a private attribute."""


class UseCheck:
    """Checks the nodes of one syntax tree.

    Args:
        names: what the names of the candidate's syntax tree stand for.
        report: takes the findings.
    """

    def __init__(self, names: Names, report: Report) -> None:
        self.names = names
        self.report = report
        self.called = {id(node.func) for node in names.nodes if isinstance(node, ast.Call)}
        self.refused: set[int] = set()
        """Ids of nodes that need no further finding: reported names, and the inner parts of attribute chains."""

    def check_import(self, node: ast.Import | ast.ImportFrom) -> None:
        """Check an import statement; at most one finding."""
        if isinstance(node, ast.ImportFrom) and node.level:
            self.report.add("forbidden_import", node, "relative import", "a candidate is one module, on its own")
            return
        for alias in node.names:
            module, name = (node.module or "", alias.name) if isinstance(node, ast.ImportFrom) else (alias.name, None)
            why = import_refused(module, name)
            if why and (name == "*" or not use_refused(f"{module}.{name}" if name else module)):
                self.report.add("forbidden_import", node, f"import of {module}", why)
            elif why:
                self.report.refuse(node, f"import of {module}{'.' + name if name else ''}: {why}")
            elif name == "*" and module.split(".")[0] in LIBRARIES and not module.startswith("triton.language"):
                self.report.add(
                    "forbidden_import", node, f"import of everything in {module}", "import names one by one"
                )
            else:
                continue
            return

    def check(self, node: ast.AST) -> None:
        """Check one node of any kind but imports. Visit outer nodes before inner ones."""
        if isinstance(node, ast.Name):
            self._check_name(node)
        elif isinstance(node, ast.Attribute):
            self._check_attribute(node)
        elif isinstance(node, ast.Call):
            self._check_call(node)
        elif isinstance(node, ast.ClassDef):
            check_class(node, self.names, self.report)
        elif isinstance(node, ast.Return | ast.Yield | ast.YieldFrom) and node.value is not None:
            self._check_handed_on(node.value)
        elif isinstance(node, ast.Lambda):
            self._check_handed_on(node.body)
        elif isinstance(node, ast.MatchClass):
            for attribute in node.kwd_attrs:  # `case object(os=x)` reads an attribute, too
                self._check_read(node, attribute, node.cls, frozenset())
        elif isinstance(node, ast.FunctionDef) and node in self.names.tree.body and _is_dunder(node.name):
            self.report.refuse(node, f"module-level {node.name}()")

    def _check_name(self, node: ast.Name) -> None:
        if self.names.is_bound(node) or id(node) in self.refused:
            return
        if node.id in BUILTINS and not self._names_a_logger(node):
            word = "call of" if id(node) in self.called else "use of"
            self.report.refuse(
                node, f"{word} {node.id}{'()' if word == 'call of' else ''}", "write the code out instead"
            )
        elif node.id in ("getattr", "setattr", "delattr") and id(node) not in self.called:
            self.report.refuse(node, f"{node.id} as a value", "name the attribute where it is used")

    def _names_a_logger(self, node: ast.Name) -> bool:
        """Whether this is the `__name__` of `logging.getLogger(__name__)`."""
        return node.id == "__name__" and any(
            isinstance(outer, ast.Call) and outer.args == [node] and self.names.dotted(outer.func) == {LOGGER}
            for outer in self.names.nodes
        )

    def _check_attribute(self, node: ast.Attribute) -> None:
        dotted = self.names.dotted(node)
        if not isinstance(node.ctx, ast.Load):
            self._check_store(node, dotted)
        self._check_read(node, node.attr, node.value, dotted)

    def _check_read(self, node: ast.AST, attribute: str, owner: ast.expr, dotted: frozenset[str]) -> None:
        """Check an attribute that is read, by whatever syntax.

        Args:
            node: where it is read.
            attribute: its name.
            owner: the expression whose attribute it is.
            dotted: library names that the whole may stand for.
        """
        if id(node) in self.refused:
            return
        why = next((why for name in sorted(dotted) if (why := use_refused(name))), "")
        if not why and dotted & NO_COMPILER:
            pass  # what it is a part of is not used otherwise
        elif why:
            self.report.refuse(node, f"use of {min(dotted)}: {why}")
        elif id(node) not in self.called and dotted & (COPIES_ATTRIBUTES.keys() | READS_ENVIRONMENT):
            self.report.refuse(node, f"{min(dotted)} as a value", "call it where it is needed")
        elif attribute in ON_NOTHING and not dotted & OWN_OPERATORS:
            self.report.refuse(node, f"use of {attribute}: {ON_NOTHING[attribute]}")
        elif attribute.lstrip("_") in NEVER_ASKED_FOR and not self.names.made_here(owner):
            self.report.refuse(node, f"use of {attribute}: a library's own imports are not the candidate's")
        elif attribute in ATTRIBUTES and not self.names.made_here(owner):
            self.report.refuse(node, f"use of {attribute}: {ATTRIBUTES[attribute]}")
        elif _is_dunder(attribute) and attribute not in DUNDERS and not self._is_harmless(node):
            self.report.refuse(node, f"use of {attribute}", "use the public interface")
        elif not dotted & READS_ENVIRONMENT:
            return
        while isinstance(node, ast.Attribute):  # one finding per chain
            self.refused.add(id(node.value))
            node = node.value

    def _is_harmless(self, node: ast.AST) -> bool:
        """Whether this is `x.__class__.__name__`, `object.__setattr__(self, …)`, which frozen dataclasses need, or
        `self.__dict__.update(…)`, which sets attributes as `setattr` does."""
        if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load):
            return False
        for outer in self.names.nodes:
            if node.attr == "__class__" and isinstance(outer, ast.Attribute) and outer.value is node:
                return outer.attr in ("__name__", "__qualname__")
            if node.attr == "__dict__" and isinstance(outer, ast.Attribute) and outer.value is node:
                return outer.attr == "update" and self.names.made_here(node.value)
            if node.attr == "__setattr__" and isinstance(outer, ast.Call) and outer.func is node and outer.args:
                return isinstance(outer.args[0], ast.Name) and outer.args[0].id == "self"
        return False

    def _check_store(self, node: ast.Attribute, dotted: frozenset[str]) -> None:
        word = "assignment to" if isinstance(node.ctx, ast.Store) else "deletion of"
        if any(name.split(".")[0] in ROOTS for name in dotted):
            cure = (
                "leave the library as it is: its flags are set as the task's precision asks, for your calls of it too"
            )
            self.report.refuse(node, f"{word} {min(dotted)}", cure)
            self.refused.add(id(node))
        elif self._is_a_class_or_module(node.value):
            self.report.refuse(
                node, f"{word} {node.attr} of a class that is not the candidate's own", "leave it as it is"
            )

    def _is_a_class_or_module(self, node: ast.expr) -> bool:
        """Whether an expression is surely not the candidate's own: `type(x)`, `x.__class__`, a part of a library."""
        if isinstance(node, ast.Call):
            called = isinstance(node.func, ast.Name) and node.func.id == "type"
            return called and not (node.args and self.names.made_here(node.args[0]))
        if isinstance(node, ast.Attribute) and node.attr == "__class__":
            return not self.names.made_here(node.value)
        return any(name.split(".")[0] in ROOTS for name in self.names.dotted(node))

    def _check_call(self, node: ast.Call) -> None:
        function = node.func
        if not (isinstance(function, ast.Name) and function.id in ASKS and not self.names.is_bound(function)):
            for value in (*node.args, *(keyword.value for keyword in node.keywords)):
                self._check_handed_on(value)
        if isinstance(function, ast.Name) and not self.names.is_bound(function):
            if function.id == "getattr" and len(node.args) > 1:
                self._check_getattr(node)
            elif function.id in ("setattr", "delattr"):
                self._check_setattr(node, function.id)
            elif function.id == "type" and len(node.args) > 1:
                self.report.refuse(node, "a class made by type()", "write the class out")
        elif isinstance(function, ast.Attribute) and function.attr in ("format", "format_map"):
            self._check_format(node, function.value)
        self._check_copied_attributes(node)
        if self.names.dotted(function) & READS_ENVIRONMENT:
            self._check_variable(node)
        own_clock = any(keyword.arg == "do_bench" for keyword in node.keywords)
        if own_clock and any(name.endswith(".autotune") for name in self.names.dotted(function)):
            self.report.refuse(node, "autotune with a clock of its own", "leave do_bench out")

    def _check_variable(self, node: ast.Call) -> None:
        """Check which environment variable is read: its name, or how it begins, stands there."""
        name = node.args[0] if node.args else None
        if isinstance(name, ast.JoinedStr) and name.values:
            name = name.values[0]
        text = name.value if isinstance(name, ast.Constant) else None
        if not isinstance(text, str) or not text or text.startswith(TOOLS_VARIABLES):
            self.report.refuse(node, "an environment variable that is not the kernel's own", "leave it out")

    def _check_copied_attributes(self, node: ast.Call) -> None:
        for name in self.names.dotted(node.func) & COPIES_ATTRIBUTES.keys():
            starred = any(isinstance(argument, ast.Starred) for argument in node.args)
            if node.keywords or starred or len(node.args) > COPIES_ATTRIBUTES[name]:
                self.report.refuse(node, f"{name}() that is told which attributes to set", "leave these arguments out")

    def _check_handed_on(self, value: ast.expr) -> None:
        """Refuse a whole library as an argument or a result, where the code would use it under another name."""
        if isinstance(value, ast.Tuple | ast.List | ast.Set):
            for element in value.elts:
                self._check_handed_on(element)
        elif isinstance(value, ast.Dict):
            for element in value.values:
                self._check_handed_on(element)
        elif modules := sorted(filter(is_module, self.names.dotted(value))):
            self.report.refuse(value, f"{modules[0]} itself as a value", "name the function of it that is needed")

    def _check_getattr(self, node: ast.Call) -> None:
        owner, name = node.args[:2]
        strings = self.names.strings(name)
        if strings is None:
            if not self.names.made_here(owner) and (self.names.dotted(owner) or not _is_harmless_prefix(name)):
                self.report.refuse(node, "getattr() with a computed name", "write the attribute's name")
            return
        for attribute in sorted(strings):
            dotted = frozenset(f"{base}.{attribute}" for base in self.names.dotted(owner))
            self._check_read(node, attribute, owner, dotted)

    def _check_setattr(self, node: ast.Call, word: str) -> None:
        if not node.args or not self.names.made_here(node.args[0]):
            self.report.refuse(node, f"call of {word}() on what is not the candidate's own", "assign to self")
            return
        for attribute in sorted((self.names.strings(node.args[1]) or ()) if len(node.args) > 1 else ()):
            if attribute in ON_NOTHING or _is_dunder(attribute):
                self.report.refuse(node, f"{word}() of {attribute}", "use the public interface")

    def _check_format(self, node: ast.Call, text: ast.expr) -> None:
        strings = self.names.strings(text)
        if strings is None:
            strings = frozenset(_literals(self.names.nodes)) if not isinstance(text, ast.JoinedStr) else None
        if any(HIDDEN_FIELD.search(string) for string in strings or ()):
            self.report.refuse(node, "a format string that reads private attributes")


def _is_harmless_prefix(name: ast.expr) -> bool:
    """Whether a computed name begins with literal letters, as `f"weight_{i}"` does, with which nothing refused begins.

    Such a name is public, and no library's own part is asked for by it.
    """
    if isinstance(name, ast.BinOp) and isinstance(name.op, ast.Add):
        return _is_harmless_prefix(name.left)
    first = name.values[0] if isinstance(name, ast.JoinedStr) and name.values else name
    if not isinstance(first, ast.Constant) or not isinstance(first.value, str):
        return False
    prefix = first.value
    refused = (*ON_NOTHING, *ATTRIBUTES, *NEVER_ASKED_FOR)
    return len(prefix) > 1 and prefix[0].isalpha() and not any(word.startswith(prefix) for word in refused)


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _literals(nodes: Sequence[ast.AST]) -> Iterator[str]:
    """Yield the string literals that are no docstrings."""
    told = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
            yield node.value

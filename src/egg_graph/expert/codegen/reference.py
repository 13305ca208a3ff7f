"""What the generated module keeps of the reference's source: its `__init__`, imports, helpers and constants."""

import ast
import re
import symtable
from collections.abc import Mapping

from egg_graph.schema.syntax import syntax_tree

OWN_IMPORTS = {"torch": "import torch", "nn": "import torch.nn as nn", "F": "import torch.nn.functional as F",
               "triton": "import triton", "tl": "import triton.language as tl"}  # fmt: skip
"""Imports of every generated module, by the name that each binds."""
NOT_KEPT = frozenset({"Model", "get_inputs", "get_init_inputs"})


class CannotWrite(Exception):
    """The module cannot be written for every shape; one line why."""


class ReferenceSource:
    """The reference's syntax tree, and the pieces of it that the generated module repeats word for word.

    Raises:
        CannotWrite: if the reference has no class `Model` with a `forward` of its own.
    """

    def __init__(self, source: str) -> None:
        self.tree = syntax_tree(source)
        self.source = _renamed(source, self.tree)
        self.lines = self.source.splitlines()
        self.tree = syntax_tree(self.source)
        classes = [n for n in self.tree.body if isinstance(n, ast.ClassDef) and n.name == "Model"]
        if not classes:
            raise CannotWrite("the reference has no class Model of its own")
        self.model_class = classes[-1]
        methods = [n for n in self.model_class.body if isinstance(n, ast.FunctionDef)]
        self.methods = {m.name: m for m in methods}
        if "forward" not in self.methods:
            raise CannotWrite("Model inherits its forward; write it out in the class")
        self.forward_arguments = [a.arg for a in ast.walk(self.methods["forward"].args) if isinstance(a, ast.arg)]

    def model(self, statements: list[str], attributes: Mapping[str, str] | None = None) -> str:
        """Write `class ModelNew`: these statements as its `forward`, the rest word for word.

        Args:
            statements: The body of `forward`.
            attributes: Further attributes of the module, with what its `__init__` sets them to.

        Raises:
            CannotWrite: if the reference uses one of these names itself.
        """
        for name in attributes or {}:
            if re.search(rf"\b{name}\b", self.source):
                raise CannotWrite(f"the reference has a {name} of its own")
        bases = ", ".join(ast.unparse(b) for b in self.model_class.bases)
        lines = [f"class ModelNew({bases}):"]
        for item in self.model_class.body:
            if isinstance(item, ast.FunctionDef) and item.name not in self._kept_methods():
                continue
            if isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant):
                continue  # the reference's docstring speaks of the reference
            lines += self._segment(item)
            if isinstance(item, ast.FunctionDef) and item.name == "__init__":
                lines += [f"        self.{name} = {value}" for name, value in (attributes or {}).items()]
            lines.append("")
        if attributes and "__init__" not in self.methods:
            lines += ["    def __init__(self, *args, **kwargs):", "        super().__init__(*args, **kwargs)"]
            lines += [*(f"        self.{name} = {value}" for name, value in attributes.items()), ""]
        returns = self.methods["forward"].returns
        arrow = f" -> {ast.unparse(returns)}" if returns is not None else ""
        lines.append(f"    def forward({ast.unparse(self.methods['forward'].args)}){arrow}:")
        lines += [f"        {statement}" for statement in statements]
        return "\n".join(lines)

    def imports(self) -> list[str]:
        """List the imports of every module, then those of the reference that bind further names."""
        own = list(OWN_IMPORTS.values())
        for item in self.tree.body:
            if isinstance(item, ast.Import | ast.ImportFrom):
                wanted = [a for a in item.names if (a.asname or a.name.split(".")[0]) not in OWN_IMPORTS]
                if wanted and self._uses({a.asname or a.name.split(".")[0] for a in wanted}):
                    item.names = wanted
                    own.append(ast.unparse(item))
        futures = [line for line in own if line.startswith("from __future__")]
        return futures + [line for line in own if line not in futures]

    def needed(self, model: str) -> list[str]:
        """List the module-level code that `model` uses, transitively, in the reference's order."""
        definitions = {name: item for item in self.tree.body for name in _bound(item) if name not in NOT_KEPT}
        wanted: set[str] = set()
        frontier = _globals(model)
        while frontier:
            name = frontier.pop()
            if name in definitions and name not in wanted:
                wanted.add(name)
                frontier |= _globals("\n".join(self._segment(definitions[name])))
        items = {id(definitions[name]): definitions[name] for name in wanted}
        return ["\n".join(self._segment(item)) for item in self.tree.body if id(item) in items]

    def _kept_methods(self) -> set[str]:
        """Return `__init__` and the methods that it calls, transitively."""
        kept: set[str] = set()
        frontier = {"__init__"}
        while frontier:
            name = frontier.pop()
            if name in self.methods and name not in kept and name != "forward":
                kept.add(name)
                frontier |= {n.attr for n in ast.walk(self.methods[name]) if isinstance(n, ast.Attribute)}
        return kept

    def _uses(self, names: set[str]) -> bool:
        """Return whether anything but the input functions and the body of `forward` uses one of these names."""
        skip = {id(self.methods["forward"])}
        roots = [n for n in self.tree.body if not (isinstance(n, ast.FunctionDef) and n.name in NOT_KEPT)]
        pending: list[ast.AST] = [n for n in roots if not isinstance(n, ast.Import | ast.ImportFrom)]
        while pending:
            node = pending.pop()
            if id(node) in skip:
                pending.append(self.methods["forward"].args)
                continue
            if isinstance(node, ast.Name) and node.id in names:
                return True
            pending.extend(ast.iter_child_nodes(node))
        return False

    def _segment(self, item: ast.stmt) -> list[str]:
        first = min([item.lineno, *(d.lineno for d in getattr(item, "decorator_list", []))])
        return self.lines[first - 1 : item.end_lineno]


def _renamed(source: str, tree: ast.Module) -> str:
    """Rename `Model` to `ModelNew` in expressions such as `super(Model, self)`; keep layout and comments."""
    lines = source.encode().splitlines(keepends=True)
    places = [(n.lineno, n.col_offset) for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == "Model"]
    for line, column in sorted(places, reverse=True):
        text = lines[line - 1]
        lines[line - 1] = text[:column] + b"ModelNew" + text[column + len(b"Model") :]
    return b"".join(lines).decode()


def _bound(item: ast.stmt) -> list[str]:
    if isinstance(item, ast.FunctionDef | ast.ClassDef):
        return [item.name]
    if isinstance(item, ast.Assign | ast.AnnAssign):
        targets = item.targets if isinstance(item, ast.Assign) else [item.target]
        return [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
    return []


def _globals(text: str) -> set[str]:
    """Return the names that a piece of module-level code takes from the module."""

    def walk(table: symtable.SymbolTable) -> set[str]:
        top = table.get_type() == "module"
        own = {s.get_name() for s in table.get_symbols() if s.is_global() or (top and s.is_referenced())}
        return own.union(*(walk(child) for child in table.get_children()))

    return walk(symtable.symtable(text, "<reference>", "exec"))

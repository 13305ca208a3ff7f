"""Assemble the module: imports, CONFIG and SPACE, kernels, wrappers, and `ModelNew` with the reference's `__init__`."""

import ast
import re
import symtable
from collections.abc import Iterable, Mapping

from egg_graph.expert.codegen.forward import CannotWrite, ForwardWriter
from egg_graph.expert.codegen.helpers import helper_source
from egg_graph.expert.playbooks.planner import Plan
from egg_graph.expert.playbooks.playbook import KernelCode, Playbook
from egg_graph.schema import ConfigSpace, Hardware, Knob, Precision, StageName

STAGES: tuple[StageName, ...] = ("parallel_mapping", "tensor_tiling", "memory_optimization")
OWN_IMPORTS = {"torch": "import torch", "nn": "import torch.nn as nn", "F": "import torch.nn.functional as F",
               "triton": "import triton", "tl": "import triton.language as tl"}  # fmt: skip
NOT_KEPT = frozenset({"Model", "get_inputs", "get_init_inputs"})


def write_module(
    reference: str,
    plan: Plan,
    playbooks: Mapping[str, Playbook],
    precision: Precision,
    config: Mapping[str, Knob] | None = None,
    target: Hardware | None = None,
) -> str:
    """The candidate's source.

    Args:
        reference: The reference's source.
        plan: Its groups.
        playbooks: By name.
        precision: The task's policy.
        config: Knobs that replace the playbooks' first choice.
        target: The GPU that the first choice is for.

    Raises:
        CannotWrite: if there is nothing for Triton to do, or a size cannot be generalised.
    """
    if not plan.groups:
        left = ", ".join(dict.fromkeys(node.base for node in plan.left))
        raise CannotWrite(f"no playbook matches any operator of the reference ({left or 'it has none'})")
    codes = {
        name: playbooks[group.playbook].write(plan.graph, group, name, precision, target)
        for name, group in plan.groups.items()
    }
    kept = _Reference(reference)
    statements = ForwardWriter(plan, codes, kept.forward_arguments).statements()
    all_config = {k: v for code in codes.values() for k, v in code.config.items()}
    all_config.update({k: v for k, v in (config or {}).items() if k in all_config})
    helpers = helper_source({h for code in codes.values() for h in code.helpers})
    model = kept.model(statements)
    text = "\n\n\n".join(
        part.strip("\n")
        for part in (
            _docstring(plan, codes) + "\n\n" + "\n".join(kept.imports()),
            _literals(all_config, _space(codes.values())),
            helpers,
            *(code.source for code in codes.values()),
            *kept.needed(model),
            model,
        )
        if part.strip()
    )
    return text + "\n"


def _docstring(plan: Plan, codes: Mapping[str, KernelCode]) -> str:
    """The plan, in a form that `read_plan` reads back."""
    lines = ['"""Triton kernels for the reference module, written by the embedded expert from its playbooks.', ""]
    for name, group in plan.groups.items():
        kind = f"{group.playbook}/{group.variant}" if group.variant else group.playbook
        lines.append(_short(f"{name} [{kind}]: {codes[name].summary or codes[name].function}"))
    left = [node.base for node in plan.left]
    if left:
        lines.append(_short(f"Stays PyTorch: {', '.join(dict.fromkeys(left))}"))
    if plan.dropped:
        lines.append(_short(f"Taken back to PyTorch after a failure: {', '.join(plan.dropped)}"))
    return "\n".join([*lines, '"""'])


def _short(line: str) -> str:
    line = line.replace("\\", "/").replace('"""', "'''")
    return line if len(line) <= 118 else line[:117].rsplit(" ", 1)[0] + " …"


def read_plan(source: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """Group names with their variants, and the groups dropped so far, from a module's docstring."""
    try:
        doc = ast.get_docstring(ast.parse(source)) or ""
    except SyntaxError:
        return {}, ()
    groups = {m[1]: m[2] or "" for m in re.finditer(r"^(\w+) \[\w+(?:/(\w+))?\]:", doc, re.M)}
    dropped = re.search(r"^Taken back to PyTorch after a failure: (.*)$", doc, re.M)
    return groups, tuple(dropped[1].split(", ")) if dropped else ()


def _space(codes: Iterable[KernelCode]) -> ConfigSpace:
    space: dict[StageName, dict[str, tuple[Knob, ...]]] = {}
    for code in codes:
        for stage, knobs in code.space.items():
            space.setdefault(stage, {}).update(knobs)
    return {stage: space[stage] for stage in STAGES if space.get(stage)}


def _literals(config: Mapping[str, Knob], space: ConfigSpace) -> str:
    if not config:
        return ""
    lines = ["CONFIG = {", *(f'    "{k}": {_quoted(v)},' for k, v in config.items()), "}"]
    if space:
        lines.append("SPACE = {")
        for stage, knobs in space.items():
            lines.append(f'    "{stage}": {{')
            lines += [f'        "{k}": [{", ".join(_quoted(v) for v in values)}],' for k, values in knobs.items()]
            lines.append("    },")
        lines.append("}")
    return "\n".join(lines)


def _quoted(value: Knob) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


class _Reference:
    """What the candidate keeps of the reference's source."""

    def __init__(self, source: str) -> None:
        self.tree = ast.parse(source)
        self.source = _renamed(source, self.tree)
        self.lines = self.source.splitlines()
        self.tree = ast.parse(self.source)
        classes = [n for n in self.tree.body if isinstance(n, ast.ClassDef) and n.name == "Model"]
        if not classes:
            raise CannotWrite("the reference has no class Model of its own")
        self.model_class = classes[-1]
        methods = [n for n in self.model_class.body if isinstance(n, ast.FunctionDef)]
        self.methods = {m.name: m for m in methods}
        if "forward" not in self.methods:
            raise CannotWrite("Model inherits its forward; write it out in the class")
        self.forward_arguments = [a.arg for a in ast.walk(self.methods["forward"].args) if isinstance(a, ast.arg)]

    def model(self, statements: list[str]) -> str:
        """`class ModelNew`: everything but `forward` word for word."""
        bases = ", ".join(ast.unparse(b) for b in self.model_class.bases)
        lines = [f"class ModelNew({bases}):"]
        for item in self.model_class.body:
            if isinstance(item, ast.FunctionDef) and item.name not in self._kept_methods():
                continue
            if isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant):
                continue  # the reference's docstring speaks of the reference
            lines += [*self._segment(item), ""]
        returns = self.methods["forward"].returns
        arrow = f" -> {ast.unparse(returns)}" if returns is not None else ""
        lines.append(f"    def forward({ast.unparse(self.methods['forward'].args)}){arrow}:")
        lines += [f"        {statement}" for statement in statements]
        return "\n".join(lines)

    def imports(self) -> list[str]:
        """Our own, and those of the reference's that bind other names."""
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
        """Module-level code that the kept part of Model uses, transitively, in the order it stands."""
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
        """`__init__` and the methods it calls, transitively."""
        kept: set[str] = set()
        frontier = {"__init__"}
        while frontier:
            name = frontier.pop()
            if name in self.methods and name not in kept and name != "forward":
                kept.add(name)
                frontier |= {n.attr for n in ast.walk(self.methods[name]) if isinstance(n, ast.Attribute)}
        return kept

    def _uses(self, names: set[str]) -> bool:
        """Whether anything but the input functions and `forward` uses one of these names."""
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
    """`Model` as a name in expressions (`super(Model, self)`) becomes `ModelNew`; layout and comments stay."""
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
    """Names that a piece of module-level code takes from the module."""

    def walk(table: symtable.SymbolTable) -> set[str]:
        top = table.get_type() == "module"
        own = {s.get_name() for s in table.get_symbols() if s.is_global() or (top and s.is_referenced())}
        return own.union(*(walk(child) for child in table.get_children()))

    return walk(symtable.symtable(text, "<reference>", "exec"))

"""The static gate: what can be told about a candidate from its syntax tree, before any of it runs.

It reads structure, never words: a docstring may say anything. It is a tripwire for broken contracts and for Python
that Triton cannot compile; what it lets through still runs in a child process that holds no answers.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from egg_graph.schema import Candidate, Finding, FindingKind

ALLOWED_IMPORTS = frozenset(
    {
        *("torch", "triton", "numpy", "math", "typing", "functools", "itertools", "dataclasses", "collections"),
        *("operator", "enum", "abc", "__future__", "contextlib"),
    }
)
FORBIDDEN = {
    "torch.compile": "it would hand the work to another compiler",
    "torch.jit": "it would hand the work to another compiler",
    "torch._dynamo": "it would hand the work to another compiler",
    "torch._inductor": "it would hand the work to another compiler",
    "torch.utils.cpp_extension": "only Triton kernels are judged",
    "torch.cuda._compile_kernel": "only Triton kernels are judged",
    "torch.ops.load_library": "only Triton kernels are judged",
    "torch.classes": "only Triton kernels are judged",
    "torch.hub": "a kernel reads nothing but its arguments",
    "torch.load": "a kernel reads nothing but its arguments",
    "torch.save": "a kernel writes nothing but its results",
    "torch.multiprocessing": "a kernel starts no processes",
    "torch.distributed": "a kernel starts no processes",
    "torch.os": "a kernel reads nothing but its arguments",
    "torch.sys": "a kernel reads nothing but its arguments",
    "torch.testing": "a kernel does not test itself",
    "numpy.ctypeslib": "only Triton kernels are judged",
    "numpy.load": "a kernel reads nothing but its arguments",
    "numpy.save": "a kernel writes nothing but its results",
    "numpy.memmap": "a kernel reads nothing but its arguments",
    "numpy.fromfile": "a kernel reads nothing but its arguments",
    "triton.testing": "a kernel does not time itself",
}
FORBIDDEN_CALLS = frozenset(
    {"eval", "exec", "compile", "__import__", "open", "input", "breakpoint", "globals", "locals", "vars", "setattr"}
)
FORBIDDEN_ATTRIBUTES = frozenset(
    {"__subclasses__", "__globals__", "__code__", "__closure__", "__builtins__", "__loader__", "f_back", "gi_frame"}
)
TEST_NAMES = frozenset({"get_inputs", "get_init_inputs", "main", "test", "run_test", "benchmark"})


def check(candidate: Candidate) -> tuple[Finding, ...]:
    """All that is wrong with a candidate's text; empty if the gate is open."""
    if not candidate.source.strip():
        return (Finding(kind="no_code", message=candidate.problem or "there is no source"),)
    try:
        tree = ast.parse(candidate.source)
    except (SyntaxError, ValueError) as error:
        return (_syntax(error),)
    gate = _Gate(tree)
    gate.run()
    return tuple(gate.findings)


def _syntax(error: SyntaxError | ValueError) -> Finding:
    if not isinstance(error, SyntaxError):
        return Finding(kind="syntax_error", message=f"not valid Python: {error}")
    text = f": {error.text.strip()}" if error.text else ""
    return Finding(kind="syntax_error", message=f"not valid Python: {error.msg}{text}", where=f"line {error.lineno}")


@dataclass
class _Gate:
    tree: ast.Module
    findings: list[Finding] = field(default_factory=list)
    aliases: dict[str, str] = field(default_factory=dict)
    """Local name -> dotted name it was imported as."""

    def run(self) -> None:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._import(node)
        for node in ast.walk(self.tree):
            self._construct(node)
        self._tests()
        kernels = list(self._kernels())
        if not kernels:
            self._add("no_triton_kernel", self.tree, "no function is decorated with @triton.jit", "write one")
        for kernel in kernels:
            self._kernel_body(kernel)
        self._entry_point()

    def _add(self, kind: FindingKind, node: ast.AST, message: str, cure: str = "") -> None:
        line = getattr(node, "lineno", None)
        self.findings.append(Finding(kind=kind, message=message, where=f"line {line}" if line else "", cure=cure))

    # ------------------------------------------------------------------------------------------------ imports

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        if isinstance(node, ast.ImportFrom):
            if node.level:
                self._add("forbidden_import", node, "relative import", "a candidate is one module, on its own")
                return
            names = [(f"{node.module}.{a.name}", a.asname or a.name) for a in node.names]
            roots = [node.module or ""]
        else:
            names = [
                (a.name if a.asname else a.name.split(".")[0], a.asname or a.name.split(".")[0]) for a in node.names
            ]
            roots = [a.name for a in node.names]
        self.aliases.update({local: dotted for dotted, local in names})
        for dotted in [*roots, *(dotted for dotted, _ in names)]:
            if dotted.split(".")[0] not in ALLOWED_IMPORTS:
                self._add(
                    "forbidden_import",
                    node,
                    f"import of {dotted.split('.')[0]}",
                    f"allowed are {', '.join(sorted(ALLOWED_IMPORTS))}",
                )
                return
            if self._forbid(dotted, node):
                return

    def _forbid(self, dotted: str, node: ast.AST) -> bool:
        for name, why in FORBIDDEN.items():
            if dotted == name or dotted.startswith(name + "."):
                self._add("forbidden_construct", node, f"use of {name}: {why}", "remove it")
                return True
        return False

    def _dotted(self, node: ast.AST) -> str:
        """`torch.utils.x` for an attribute chain on an imported name; empty for anything else."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        return ".".join([self.aliases.get(node.id, node.id), *reversed(parts)])

    # --------------------------------------------------------------------------------------------- constructs

    def _construct(self, node: ast.AST) -> None:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FORBIDDEN_CALLS:
            if node.func.id not in self.aliases:
                self._add("forbidden_construct", node, f"call of {node.func.id}()", "write the code out instead")
        elif isinstance(node, ast.Attribute):
            if node.attr in FORBIDDEN_ATTRIBUTES:
                self._add("forbidden_construct", node, f"use of {node.attr}", "remove it")
            elif not isinstance(getattr(node, "ctx", None), ast.Store):
                self._forbid(self._dotted(node), node)
            elif self._dotted(node).split(".")[0] in ("torch", "triton", "numpy"):
                self._add(
                    "forbidden_construct", node, f"assignment to {self._dotted(node)}", "leave the library as it is"
                )
        elif isinstance(node, ast.ClassDef):
            for base in node.bases:
                if self._dotted(base).split(".")[-1] == "Model":
                    self._add(
                        "forbidden_construct", node, "subclass of the reference Model", "subclass torch.nn.Module"
                    )

    def _tests(self) -> None:
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef) and (node.name in TEST_NAMES or node.name.startswith("test_")):
                if not any(_is_jit(self._decorator_name(d)) for d in node.decorator_list):
                    self._add(
                        "test_code",
                        node,
                        f"test code: {node.name}()",
                        "leave only imports, kernels, wrappers, ModelNew",
                    )
            elif isinstance(node, ast.If) and "__name__" in {
                n.id for n in ast.walk(node.test) if isinstance(n, ast.Name)
            }:
                self._add("test_code", node, 'test code: `if __name__ == "__main__"`', "leave it out")

    # ------------------------------------------------------------------------------------------------ kernels

    def _decorator_name(self, node: ast.expr) -> str:
        return self._dotted(node.func if isinstance(node, ast.Call) else node)

    def _kernels(self) -> Iterator[ast.FunctionDef]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef) and any(_is_jit(self._decorator_name(d)) for d in node.decorator_list):
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


def _is_jit(name: str) -> bool:
    return name in ("triton.jit", "triton.runtime.jit.jit", "triton.runtime.jit")

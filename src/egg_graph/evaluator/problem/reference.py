"""The reference: KernelBench's form, loaded as it stands or with other integers in it.

A reference is Python source that defines `Model(torch.nn.Module)`, `get_inputs()` and, where `Model` takes
arguments, `get_init_inputs()`. Its shapes are integers in that source; a knob is one of them, by name:

- `N`                  module-level `N = 4096` (also `N = 64 * 64`)
- `shape.0`            first element of module-level `shape = (16, 1024)`
- `get_inputs.0`       first integer written inside `get_inputs` (likewise `get_init_inputs.0`)

torch is imported by the functions that need it, so that this module costs nothing to import.
"""

from __future__ import annotations

import ast
import atexit
import hashlib
import importlib.util
import inspect
import os
import shutil
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from egg_graph.evaluator.problem.knobs import within_bounds
from egg_graph.schema import BadInput

if TYPE_CHECKING:
    from torch import nn

    from egg_graph.evaluator.problem.randint_ends import Edges

INPUT_FUNCTIONS = ("get_inputs", "get_init_inputs")


# ---------------------------------------------------------------------------------------------------- knobs


def shape_knobs(source: str) -> dict[str, int]:
    """The integers of a reference that may vary, by name, in source order (pure AST; nothing is executed).

    Raises:
        BadInput: if the source is not Python.
    """
    return {name: _constant(node) for name, node in _knob_nodes(_parse(source))}


def override(source: str, knobs: Mapping[str, int]) -> str:
    """The same source with these integers in place; comments, layout and line numbers stay.

    Raises:
        BadInput: if a knob does not exist, naming those that do.
    """
    nodes = dict(_knob_nodes(_parse(source)))
    unknown = sorted(set(knobs) - set(nodes))
    if unknown:
        raise BadInput(f"reference has no integer named {', '.join(unknown)}; it has: {', '.join(nodes) or 'none'}")
    lines = source.encode().splitlines(keepends=True)  # ast counts columns in UTF-8 bytes
    for name, value in sorted(knobs.items(), key=lambda kv: _position(nodes[kv[0]]), reverse=True):
        node = nodes[name]
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        head, tail = lines[first][: node.col_offset], lines[last][node.end_col_offset :]
        # An expression over several lines keeps its line breaks, so that later line numbers still hold.
        lines[first : last + 1] = [head + str(int(value)).encode() + b" \\\n" * (last - first) + tail]
    return b"".join(lines).decode()


def _parse(source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except SyntaxError as error:
        raise BadInput(f"reference, line {error.lineno}: not valid Python: {error.msg}") from None


def _position(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _knob_nodes(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Name and node of every knob. A name assigned twice keeps its last assignment, as Python does.

    A constant that only `Model` itself reads is none: a candidate could not be told its new value. Nor is one that
    only bounds the values drawn; one that is a size as well, by name or by value, is (classes, a vocabulary).
    """
    found: dict[str, ast.expr] = {}
    reaching = _reaching_the_inputs(tree)
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            # `height = width = 512` is one integer, under the first of its names that matters.
            targets = sorted(statement.targets, key=lambda target: not _names(target) & reaching)
            found.update(_assigned(targets[0], statement.value))
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            found.update(_assigned(statement.target, statement.value))
        elif isinstance(statement, ast.FunctionDef) and statement.name in INPUT_FUNCTIONS:
            body = [node for child in statement.body for node in _integers(child)]
            for index, node in enumerate(sorted(body, key=_position)):
                found[f"{statement.name}.{index}"] = node
    found = {name: node for name, node in found.items() if name.split(".")[0] in reaching}
    bounds = within_bounds(tree)
    sizes = {_constant(node) for node in found.values() if id(node) not in bounds}
    for name, node in found.items():
        if id(node) not in bounds or _constant(node) in sizes:
            yield name, node


def _reaching_the_inputs(tree: ast.Module) -> set[str]:
    """Module-level names that `get_inputs` and `get_init_inputs` read, directly or through other such names."""
    reads: dict[str, set[str]] = {}
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            reads[statement.name] = _names(statement)
        elif isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for name in set().union(*map(_names, targets)):
                reads.setdefault(name, set()).update(_names(statement.value))
    reached, waiting = set(), [name for name in INPUT_FUNCTIONS if name in reads]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += reads.get(name, set()) & reads.keys()
    return reached


def _names(node: ast.AST) -> set[str]:
    return {child.id for child in ast.walk(node) if isinstance(child, ast.Name)}


def _assigned(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for left, right in zip(target.elts, value.elts, strict=True):
            yield from _assigned(left, right)
    elif isinstance(target, ast.Name) and isinstance(value, ast.Tuple | ast.List):
        for index, element in enumerate(value.elts):
            if _is_integer(element):
                yield f"{target.id}.{index}", element
    elif isinstance(target, ast.Name) and _is_integer(value):
        yield target.id, value


def _integers(node: ast.AST) -> Iterator[ast.expr]:
    """Largest constant integer expressions below a node (`64 * 64` is one knob, not two)."""
    if isinstance(node, ast.expr) and _is_integer(node):
        yield node
        return
    if isinstance(node, ast.UnaryOp):
        return  # `-1` names an axis, not a size
    for field, child in ast.iter_fields(node):
        if isinstance(node, ast.Subscript) and field == "slice":
            continue  # an index, not a size
        for item in child if isinstance(child, list) else [child]:
            if isinstance(item, ast.AST):
                yield from _integers(item)


def _is_integer(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, _ARITHMETIC) and _is_integer(node.left) and _is_integer(node.right)
    return isinstance(node, ast.Constant) and type(node.value) is int


_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Pow, ast.LShift)


def _constant(node: ast.expr) -> int:
    # Only integer literals and arithmetic on them get here.
    return int(eval(compile(ast.Expression(node), "<constant>", "eval"), {"__builtins__": {}}))


# -------------------------------------------------------------------------------------------------- loading


@dataclass(frozen=True)
class Reference:
    """A loaded reference. Nothing of it has run yet but the module body.

    `Model` is always the one of the source as written: other sizes reach it through its arguments and inputs alone, as
    they reach a candidate. Only `get_inputs` and `get_init_inputs` see the replaced integers.
    """

    source: str
    model_class: type[nn.Module]
    module: ModuleType
    """Holds `get_inputs` and `get_init_inputs`."""
    paths: tuple[Path, ...]

    def init_arguments(self) -> tuple[list[Any], dict[str, Any]]:
        """Positional and keyword arguments of `Model`.

        `get_init_inputs()` may return a list of arguments, a dict of keyword arguments, or `[args, kwargs]`, where
        that can mean nothing else.

        Raises:
            BadInput: if `get_init_inputs()` fails or returns something else.
        """
        make = getattr(self.module, "get_init_inputs", None)
        answer = [] if make is None else self._call("get_init_inputs()", make)
        if isinstance(answer, dict):
            return [], dict(answer)
        if not isinstance(answer, list | tuple):
            raise BadInput(f"reference: get_init_inputs() must return a list, it returned {type(answer).__name__}")
        if self._is_args_and_kwargs(answer):
            return list(answer[0]), dict(answer[1])
        return list(answer), {}

    def model(self, seed: int) -> nn.Module:
        """A fresh `Model`, in train mode as constructed; torch's generator is seeded before.

        Raises:
            BadInput: if the constructor fails.
        """
        import torch

        args, kwargs = self.init_arguments()
        torch.manual_seed(seed)
        return self._call("Model(...)", lambda: self.model_class(*args, **kwargs))

    def inputs(self, seed: int, edges: Edges | None = None) -> list[Any]:
        """Positional arguments of `forward`, drawn after seeding; integers hold the ends of their ranges.

        Args:
            seed: of torch's generator.
            edges: remembers what integers were drawn.

        Raises:
            BadInput: if `get_inputs()` fails or does not return a list.
        """
        import torch

        from egg_graph.evaluator.problem.randint_ends import Edges

        torch.manual_seed(seed)
        with edges or Edges():
            answer = self._call("get_inputs()", self.module.get_inputs)
        if not isinstance(answer, list | tuple):
            raise BadInput(f"reference: get_inputs() must return a list, it returned {type(answer).__name__}")
        return list(answer)

    def forward_names(self, count: int) -> list[str]:
        """Names of the first `count` positional arguments of `Model.forward`."""
        names = [
            p.name
            for p in list(inspect.signature(self.model_class.forward).parameters.values())[1:]
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        return [names[i] if i < len(names) else f"input_{i}" for i in range(count)]

    def _is_args_and_kwargs(self, answer: list[Any] | tuple[Any, ...]) -> bool:
        if len(answer) != 2 or not isinstance(answer[0], list | tuple) or not isinstance(answer[1], dict):
            return False
        parameters = inspect.signature(self.model_class).parameters
        takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        return all(isinstance(key, str) and (takes_any or key in parameters) for key in answer[1])

    def _call(self, what: str, call: Any) -> Any:
        try:
            return call()
        except BadInput:
            raise
        except Exception as error:
            raise BadInput(f"reference: {what} fails{where_in(error, *self.paths)}: {one_line(error)}") from error


def load_reference(source: str, knobs: Mapping[str, int] | None = None) -> Reference:
    """Execute a reference, with some of its integers replaced, from a real file (so that `inspect` finds its source).

    Args:
        source: Python source in KernelBench's form.
        knobs: names as `shape_knobs` gives them, and the values to put in their place.

    Raises:
        BadInput: one line that says what is wrong, where, and how to mend it.
    """
    text = override(source, knobs or {})
    module, path = _execute(text)
    written, written_path = (module, path) if not knobs else _execute(override(source, {}))
    return Reference(source=text, model_class=written.Model, module=module, paths=(path, written_path))


def _execute(text: str) -> tuple[ModuleType, Path]:
    """Run a module's body from a file of its own."""
    _parse(text)
    name = "egg_reference_" + hashlib.sha256(text.encode()).hexdigest()[:16]
    path = _folder() / f"{name}.py"
    whole = path.with_suffix(f".{threading.get_ident()}")  # another thread may load the same text at this moment
    whole.write_text(text)
    whole.replace(path)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and inspect look a class's module up here
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise BadInput(f"reference{where_in(error, path)}: {one_line(error)}") from error
    _require(module)
    return module, path


def _require(module: ModuleType) -> None:
    from torch import nn

    model = getattr(module, "Model", None)
    if not (isinstance(model, type) and issubclass(model, nn.Module)):
        raise BadInput(
            "reference: it defines no class `Model(torch.nn.Module)`; rename the module to be replaced to Model"
        )
    if not callable(getattr(module, "get_inputs", None)):
        raise BadInput("reference: it defines no `get_inputs()`; add one that returns the list of forward's arguments")
    required = [
        p.name
        for p in inspect.signature(model).parameters.values()
        if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    ]
    if required and not callable(getattr(module, "get_init_inputs", None)):
        raise BadInput(
            f"reference: Model takes {', '.join(required)} but there is no `get_init_inputs()`; "
            "add one that returns the list of Model's arguments"
        )


def where_in(error: BaseException, *paths: Path) -> str:
    """`, line 7` where the traceback last touches one of the files; empty where it never does."""
    files = {str(path) for path in paths}
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename in files]
    return f", line {lines[-1]}" if lines else ""


def one_line(error: BaseException) -> str:
    """`TypeError: message`, on one line, at most 300 characters; of a reference's own complaint the message alone. That
    a reference was tried on tensors without values is nobody's business."""
    message = " ".join(str(error).split()).replace("FakeTensor", "Tensor")
    if isinstance(error, BadInput):
        return message.removeprefix("reference: ")[:300]
    return f"{type(error).__name__}: {message}"[:300]


@cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="egg-reference-"))
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # a fork that ends must not take the folder from its parent
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder

"""Load a reference in KernelBench's form, as it is written or with some of its integers replaced.

A reference is Python source that defines `Model(torch.nn.Module)`, `get_inputs()` and, if `Model` takes arguments,
`get_init_inputs()`. Its shapes are integers in that source (see `knobs`).

torch is imported by the functions that need it, so that this module is cheap to import.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import inspect
import marshal
import os
import shutil
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from egg_graph.evaluator.problem.imports import require_imports
from egg_graph.evaluator.problem.knobs import override, parse_reference
from egg_graph.schema import BadInput

if TYPE_CHECKING:
    from torch import nn

    from egg_graph.evaluator.problem.randint_ends import RandintEnds

UNJUDGED_DTYPES = frozenset({"torch.uint16", "torch.uint32", "torch.uint64"})
"""Dtypes that PyTorch can hold, and neither add nor compare."""
NO_MEMORY = "CUDA error: out of memory"
"""CUDA's message where a process has no memory for its context; PyTorch's allocator words its own otherwise."""


@dataclass(frozen=True)
class Reference:
    """A loaded reference, of which only the module body has run.

    `Model` is always the class of the source as written. Other sizes reach it only through its arguments and inputs, as
    they reach a candidate. Only `get_inputs` and `get_init_inputs` see the replaced integers.
    """

    source: str
    """Source text with the replaced integers."""
    model_class: type[nn.Module]
    """`Model` of the source as written."""
    module: ModuleType
    """The module that holds `get_inputs` and `get_init_inputs`."""
    paths: tuple[Path, ...]
    """Files that the source was executed from."""

    def init_arguments(self) -> tuple[list[Any], dict[str, Any]]:
        """Positional and keyword arguments of `Model`.

        `get_init_inputs()` may return a list of arguments, a dict of keyword arguments, or `[args, kwargs]` if that
        cannot mean a list of arguments.

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
        """Seed torch's generator and construct a `Model`. Its mode (train or eval) stays as the constructor leaves it.

        Raises:
            BadInput: if the constructor fails.
        """
        from egg_graph.evaluator.problem.on_the_host import OnTheHost
        from egg_graph.evaluator.problem.seeding import seed_generators
        from egg_graph.evaluator.problem.under_fake import fake_construction, made

        args, kwargs = self.init_arguments()

        def construct() -> Any:
            seed_generators(seed)
            with fake_construction(), OnTheHost():
                return self._call("Model(...)", lambda: self.model_class(*args, **kwargs))

        return made(construct)

    def inputs(self, seed: int, ends: RandintEnds | None = None) -> list[Any]:
        """Seed torch's generator and draw the positional arguments of `forward`; integers include their range's ends.

        Args:
            seed: seed of torch's generator.
            ends: the mode to draw under; it remembers which integers were drawn.

        Raises:
            BadInput: if `get_inputs()` fails or does not return a list.
        """
        from egg_graph.evaluator.problem.on_the_host import OnTheHost
        from egg_graph.evaluator.problem.randint_ends import RandintEnds
        from egg_graph.evaluator.problem.seeding import seed_generators
        from egg_graph.evaluator.problem.under_fake import made

        def draw() -> Any:
            seed_generators(seed)
            with ends or RandintEnds(), OnTheHost():
                return self._call("get_inputs()", self.module.get_inputs)

        answer = made(draw)
        if not isinstance(answer, list | tuple):
            raise BadInput(f"reference: get_inputs() must return a list, it returned {type(answer).__name__}")
        for number, x in enumerate(answer):
            if str(getattr(x, "dtype", "")) in UNJUDGED_DTYPES:
                raise BadInput(
                    f"reference: input {number} of get_inputs() has dtype {x.dtype}, for which PyTorch lacks most "
                    "operators, so it cannot be judged; return int64 and convert it in forward"
                )
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
        """Whether an answer is `[args, kwargs]` and every keyword is a parameter of `Model`."""
        if len(answer) != 2 or not isinstance(answer[0], list | tuple) or not isinstance(answer[1], dict):
            return False
        parameters = inspect.signature(self.model_class).parameters
        takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        return all(isinstance(key, str) and (takes_any or key in parameters) for key in answer[1])

    def _call(self, what: str, call: Any) -> Any:
        """Call a part of the reference; an exception becomes `BadInput` that names the part and the line.

        Raises:
            torch.OutOfMemoryError: if the GPU's memory does not hold it now, which need not be its fault.
        """
        import torch

        try:
            return call()
        except (BadInput, torch.OutOfMemoryError):
            raise
        except Exception as error:
            if isinstance(error, torch.AcceleratorError) and NO_MEMORY in str(error):
                raise torch.OutOfMemoryError(one_line(error)) from error  # no memory for the context
            raise BadInput(f"reference: {what} fails{where_in(error, *self.paths)}: {one_line(error)}") from error


def load_reference(source: str, knobs: Mapping[str, int] | None = None) -> Reference:
    """Execute a reference from a real file, so that `inspect` finds its source.

    Args:
        source: Python source in KernelBench's form.
        knobs: integers to replace, by name (see `shape_knobs`).

    Raises:
        BadInput: if the source is no reference; one line says what is wrong, where, and how to fix it.
    """
    require_imports(source)
    text = override(source, knobs or {})
    module, path = _execute(text)
    written, written_path = (module, path) if not knobs else _execute(override(source, {}))
    return Reference(source=text, model_class=written.Model, module=module, paths=(path, written_path))


def _execute(text: str) -> tuple[ModuleType, Path]:
    """Run the body of a module that has a file of its own."""
    path, code = _compiled(text)
    # PyTorch's compiler keeps what it compiled with a function's code, so that two modules may not share it.
    own_code = marshal.loads(code)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses and inspect look a class's module up here
    try:
        exec(own_code, module.__dict__)
    except Exception as error:
        del sys.modules[path.stem]
        raise BadInput(f"reference{where_in(error, path)}: {one_line(error)}") from error
    _require_kernelbench_form(module)
    return module, path


@lru_cache(maxsize=256)
def _compiled(text: str) -> tuple[Path, bytes]:
    """Write a source to a file of its own and compile it: a task's sources are executed dozens of times.

    Returns:
        the file, and the code as `marshal` writes it.
    """
    parse_reference(text)
    path = _folder() / f"egg_reference_{hashlib.sha256(text.encode()).hexdigest()[:16]}.py"
    whole = path.with_suffix(f".{threading.get_ident()}")  # another thread may be loading the same text
    whole.write_text(text)
    whole.replace(path)
    return path, marshal.dumps(compile(text, path, "exec", dont_inherit=True))


def _require_kernelbench_form(module: ModuleType) -> None:
    """Raise `BadInput` if a module lacks a function or class that KernelBench's form asks for."""
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
    """`, line 7`: the line of one of the files that the traceback touches last; empty if it touches none."""
    files = {str(path) for path in paths}
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename in files]
    return f", line {lines[-1]}" if lines else ""


def one_line(error: BaseException) -> str:
    """`TypeError: message` on one line of at most 300 characters; for `BadInput`, the message alone.

    `FakeTensor` becomes `Tensor`, since the user did not ask for fake tensors.
    """
    message = " ".join(str(error).split()).replace("FakeTensor", "Tensor")
    if isinstance(error, BadInput):
        return message.removeprefix("reference: ")[:300]
    return f"{type(error).__name__}: {message}"[:300]


@cache
def _folder() -> Path:
    """A temporary folder for the sources of this process, removed when it exits."""
    folder = Path(tempfile.mkdtemp(prefix="egg-reference-"))
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # a fork that exits must not remove its parent's folder
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder

"""Several forwards of one candidate in one process, as a module in service sees them: new content at old addresses,
weights loaded anew, and answers that are looked at later. Runs in the candidate's process."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_leaves

from egg_graph.evaluator import exchange
from egg_graph.evaluator.gpu.worker_output import describe_leaf
from egg_graph.evaluator.interpreter.module import own_tensors
from egg_graph.evaluator.sandbox.faults import KernelFault

if TYPE_CHECKING:
    from egg_graph.evaluator.interpreter import RealModel

Form = dict[str, Any]
KEYS = ("shape", "dtype")

MOST_LAUNCHES = 64
"""Launches of the first call that are told in full."""


class Calls:
    """Call `n` leaves in the folder, all written before the next one starts:

    - `output_n`  its answer, unless leaves are strange; one that is not of the form it should be of is not copied,
      since a view of a few bytes may have any size, and None stands for it;
    - `after_n`   the inputs as it left them, words where one is of another form;
    - `weights_n` parameters and buffers likewise;
    - `call_n.json` launches, findings, strange leaves, forms, aliases (a silent one: why it failed, if it did);

    and at the end `late_n`, the same answer once more.
    """

    def __init__(self, model: RealModel, folder: Path) -> None:
        self.model, self.folder = model, folder
        self.inputs: list[Any] = []
        self.answers: dict[int, list[Any]] = {}
        self.weights: list[tuple[str, Form]] = []

    def make(self, index: int, call: dict[str, Any]) -> None:
        """One call, as `jobs.interpret` describes it."""
        (self.folder / f"begun_{index}").touch()
        if call["weights"] is not None:
            self._load(call["weights"])
        _, fresh = exchange.load(self.folder, call["inputs"])
        self.inputs = put_into(self.inputs, fresh) if call["reuse"] else fresh
        given = [_form(x) for x in self.inputs]
        run = self.model.call(self.inputs, seed=call["seed"])
        with _read("the answer"):
            structure, leaves = exchange.flatten(run.output)
            forms = [_form_of_leaf(leaf) for leaf in leaves]
            strange = sorted({str(form["strange"]) for form in forms if "strange" in form})
            if not strange:
                self.answers[index] = _fitting(leaves, forms, call["outputs"])
                exchange.save(self.folder, f"output_{index}", self.answers[index], structure=structure)
        with _read("an input after forward"):
            after = [_as_it_is(x, form) for x, form in zip(self.inputs, given, strict=True)]
            exchange.save(self.folder, f"after_{index}", after)
        with _read("a parameter or buffer of ModelNew"):
            own = dict(own_tensors(self.model.model))
            weights = [_as_it_is(own.get(name), form) for name, form in self.weights]
            exchange.save(self.folder, f"weights_{index}", weights)
            aliases = self._aliases(leaves, own)
        report = {
            "kernels": [launch.kernel for launch in run.launches],
            "library": list(run.library),
            "results": dict(run.results),
            "kernel_bytes": sum(launch.requested_bytes for launch in run.launches),
            "moves_only": run.moves_only,
            "read_back": run.read_back,
            "launches": [] if index else [launch.model_dump(mode="json") for launch in run.launches[:MOST_LAUNCHES]],
            "strange": strange,
            "forms": forms,
            "findings": [finding.model_dump() for finding in (*run.races, *run.elsewhere, *run.unwritten)],
            "aliases": aliases,
            "untried": self.model.trials.untried(),
        }
        (self.folder / f"call_{index}.json").write_text(json.dumps(report))

    def _load(self, weights: dict[str, Any]) -> None:
        _, values = exchange.load(self.folder, weights["file"])
        self.model.load(dict(zip(weights["names"], values, strict=True)))
        self.weights = [(name, _form(value)) for name, value in zip(weights["names"], values, strict=True)]

    def make_silent(self, index: int, call: dict[str, Any]) -> None:
        """The same with kernels that do nothing. How it fails, if it does, is nobody's fault."""
        (self.folder / f"begun_{index}").touch()
        _, inputs = exchange.load(self.folder, call["inputs"])
        report: dict[str, Any] = {}
        try:
            self._load(call["weights"])
            run = self.model.call(inputs, seed=call["seed"], silent=True)
            structure, leaves = exchange.flatten(run.output)
            fitting = _fitting(leaves, [_form_of_leaf(leaf) for leaf in leaves], call["outputs"])
            exchange.save(self.folder, f"output_{index}", fitting, structure=structure)
        except Exception as error:  # noqa: BLE001 - forward may well stumble over what its kernels did not write
            report["failed"] = f"{type(error).__name__}: {error}"[:300]
        (self.folder / f"call_{index}.json").write_text(json.dumps(report))

    def finish(self) -> None:
        """Look at every answer once more."""
        for index, leaves in self.answers.items():
            exchange.save(self.folder, f"late_{index}", leaves)

    def _aliases(self, leaves: list[Any], own: dict[str, torch.Tensor]) -> list[str]:
        """Whose memory the answer lies in, where it is not its own."""
        owners = {_storage(x): "an input" for x in tree_leaves(self.inputs) if _is_plain(x)}
        owners |= {_storage(x): f"the parameter or buffer {name}" for name, x in own.items() if _is_plain(x)}
        return sorted({owners[_storage(x)] for x in leaves if _is_plain(x) and _storage(x) in owners})


def put_into(old: list[Any], new: list[Any]) -> list[Any]:
    """New content in the tensors of the last call; their version counters do not move. What has another form is new.

    Args:
        old: inputs of the last call.
        new: inputs of the next.
    """
    if len(old) != len(new):
        return new

    def same_form(a: Any, b: Any) -> bool:
        return (
            isinstance(a, torch.Tensor)
            and isinstance(b, torch.Tensor)
            and (a.shape, a.dtype, a.stride()) == (b.shape, b.dtype, b.stride())
            and a.untyped_storage().nbytes() == b.untyped_storage().nbytes()
        )

    placed = []
    for before, after in zip(old, new, strict=True):
        if same_form(before, after):
            ctypes.memmove(
                before.untyped_storage().data_ptr(),
                after.untyped_storage().data_ptr(),
                after.untyped_storage().nbytes(),
            )
            placed.append(before)
        else:
            placed.append(after)
    return placed


def _storage(x: torch.Tensor) -> int:
    return x.untyped_storage().data_ptr() if x.numel() else -id(x)


@contextmanager
def _read(what: str) -> Iterator[None]:
    """What is read here is the candidate's own making: where that fails, it is no fault of the machine.

    Raises:
        KernelFault: `wrong_structure`.
    """
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise KernelFault(
            "wrong_structure",
            f"{what} cannot be read: {type(error).__name__}: {' '.join(str(error).split())}"[:300],
            cure="return plain tensors that own their memory; leave inputs and parameters as they are",
        ) from error


def _is_plain(value: Any) -> bool:
    """A tensor with memory of its own: what else is one at all defies copying."""
    return isinstance(value, torch.Tensor) and "shape" in describe_leaf(value, ())


def _form_of_leaf(leaf: Any) -> Form:
    """What a leaf of an answer is; a number has no form, and is copied as it is."""
    return {} if isinstance(leaf, exchange.SCALARS) else describe_leaf(leaf, ())


def _fitting(leaves: list[Any], forms: list[Form], due: list[Form]) -> list[Any]:
    """Those leaves that are of the form they should be of, None for others."""
    return [
        leaf if not form or (i < len(due) and all(form.get(key) == due[i][key] for key in KEYS)) else None
        for i, (leaf, form) in enumerate(zip(leaves, forms, strict=True))
    ]


def _form(value: Any) -> Form:
    """Shape and dtype of a tensor; empty for anything else."""
    form = describe_leaf(value, ()) if isinstance(value, torch.Tensor) else {}
    return {key: form[key] for key in KEYS} if "shape" in form else {}


def _as_it_is(value: Any, due: Form) -> Any:
    """An input or weight, or words where it is no longer the tensor it was."""
    if not due or _form(value) == due:
        return value
    form = describe_leaf(value, ())
    return str(form.get("strange") or f"{form['dtype']}{form['shape']}")

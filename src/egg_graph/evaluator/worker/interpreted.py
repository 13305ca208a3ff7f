"""Run several forwards of one candidate in the guarded interpreter, as a module in service sees them.

Inputs get new content at old addresses, weights are loaded anew, and answers are inspected again later.
"""

from __future__ import annotations

import ctypes
import gc
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._pytree import tree_leaves

from egg_graph.evaluator.host.candidate import own_tensors, reference_names
from egg_graph.evaluator.interpreter.poison import fill_with_poison
from egg_graph.evaluator.wire import exchange
from egg_graph.evaluator.wire.faults import CutShort, KernelFault
from egg_graph.evaluator.wire.leaf import describe_leaf

if TYPE_CHECKING:
    from egg_graph.evaluator.interpreter import RealModel, RealRun

Form = dict[str, Any]
KEYS = ("shape", "dtype")

FEW_KEPT = 2
"""A module may hold on to this many answers."""
ROOM = 256
"""Bytes before and after an input that is a view; the largest alignment that a kernel may assume."""
MANY = 64
"""A launch of which this many programs were done is not stuck in one of them."""
MOST_LAUNCHES = 64
"""Report this many launches of the first call in full."""


class InterpretedCalls:
    """Call `n` leaves in the folder, all written before the next one starts:

    - `output_n`  its answer, unless leaves are strange; one that is not of the form it should be of is not copied,
      since a view of a few bytes may have any size, and None stands for it;
    - `after_n`   the inputs as it left them, words where one is of another form;
    - `weights_n` parameters and buffers likewise;
    - `missing_n` where programs were left out, which elements of the answer were to come from them;
    - `call_n.json` launches, findings, strange leaves, forms, aliases (a silent one: why it failed, if it did); only
      `cut_short` if it failed for want of programs that were left out;

    `many_programs`, where some launch had many of its programs done;
    `late_n`, the same answer once more, after later calls; `undefined.json`, the loads that masked lanes off
    and gave no `other` for them; and at the end `kept.json`, how many answers somebody else
    still holds when nobody here does.
    """

    def __init__(self, model: RealModel, folder: Path, whole_steps: int | None) -> None:
        self.model, self.folder, self.whole_steps = model, folder, whole_steps
        self.inputs: list[Any] = []
        self.answers: dict[int, list[Any]] = {}
        self.weights: list[tuple[str, Form]] = []
        self.settled: set[int] = set()

    def make(self, index: int, call: dict[str, Any]) -> None:
        """Make one call, as `jobs.interpret` describes it."""
        (self.folder / f"begun_{index}").touch()
        self._prepare(call)
        given = [_form(x) for x in self.inputs]
        try:
            run = self.model.call(
                self.inputs,
                seed=call["seed"],
                gradients=call["gradients"],
                leftovers=call["leftovers"],
                step_budget=self.whole_steps,
                on_program=self._note_progress,
            )
        except CutShort:
            self._leave(f"call_{index}.json", {"cut_short": True})
            return
        finally:
            self._leave("undefined.json", sorted(self.model.undefined_loads))
        with _read("the answer"):
            structure, leaves = exchange.flatten(run.output)
            forms = [_form_of_leaf(leaf) for leaf in leaves]
            strange = sorted({str(form["strange"]) for form in forms if "strange" in form})
            if not strange:
                self.answers[index] = _fitting(leaves, forms, call["outputs"])
                exchange.save(self.folder, f"output_{index}", self.answers[index], structure=structure)
        if run.missing is not None:
            exchange.save(self.folder, f"missing_{index}", run.missing)
        with _read("an input after forward"):
            after = [_as_it_is(x, form) for x, form in zip(self.inputs, given, strict=True)]
            exchange.save(self.folder, f"after_{index}", after)
        with _read("a parameter or buffer of ModelNew"):
            own = dict(own_tensors(self.model.model))
            weights = [_as_it_is(own.get(name), form) for name, form in self.weights]
            exchange.save(self.folder, f"weights_{index}", weights)
            aliases = self._aliases(leaves, own)
        told = {"strange": strange, "forms": forms, "aliases": aliases}
        self._leave(f"call_{index}.json", {**self._report(run, whole=not index), **told})

    def _note_progress(self, done: int) -> None:
        if done == MANY:
            (self.folder / "many_programs").touch()

    def _report(self, run: RealRun, *, whole: bool) -> dict[str, Any]:
        """What a call did beside its answer, as JSON; its launches in full if `whole`."""
        return {
            "kernels": [launch.kernel for launch in run.launches],
            "library": list(run.library),
            "results": dict(run.results),
            "library_read": run.library_read,
            "kernel_bytes": sum(launch.requested_bytes for launch in run.launches),
            "moves_only": run.moves_only,
            "made_by": run.made_by,
            "copied": run.copied,
            "read_back": run.read_back,
            "launches": [launch.model_dump(mode="json") for launch in run.launches[:MOST_LAUNCHES]] if whole else [],
            "cut_short": run.cut_short,
            "partly": run.missing is not None,
            "findings": [finding.model_dump() for finding in (*run.races, *run.wrong_device, *run.unwritten)],
            "changed": list(run.changed),
            "untried": self.model.trials.untried(),
            "renamed": reference_names(self.model.model),
        }

    def _prepare(self, call: dict[str, Any]) -> None:
        """Set module, weights and inputs of a call."""
        if call["scribbled"]:
            self._settle()
        self.model.use_instance(call["module"])
        if call["evaluating"]:
            self.model.model.eval()
        if call["weights"] is not None:
            self._load(call["weights"])
        _, fresh = exchange.load(self.folder, call["inputs"])
        fresh = [_as_view(x) for x in fresh] if call["views"] else fresh
        self.inputs = put_into(self.inputs, fresh) if call["reuse"] else fresh
        for place in call["tied"]:
            self.inputs[place] = self.inputs[call["tied"][0]]

    def _settle(self) -> None:
        """Save the answers so far once more, then overwrite their memory, as their owner may."""
        for index in self.answers.keys() - self.settled:
            exchange.save(self.folder, f"late_{index}", self.answers[index])
            self.settled.add(index)
            for leaf in self.answers[index]:
                if isinstance(leaf, torch.Tensor) and torch.ops.aten.is_non_overlapping_and_dense(leaf):
                    with torch.inference_mode():  # in which answers that were made in it may be written to
                        fill_with_poison(leaf.detach().as_strided((leaf.numel(),), (1,)))

    def _load(self, weights: dict[str, Any]) -> None:
        _, values = exchange.load(self.folder, weights["file"])
        load = self.model.assign if weights["in_place"] else self.model.load
        load(dict(zip(weights["names"], values, strict=True)))
        self.weights = [(name, _form(value)) for name, value in zip(weights["names"], values, strict=True)]

    def make_silent(self, index: int, call: dict[str, Any]) -> None:
        """Make one call whose Triton kernels do nothing; report how it fails, if it does."""
        (self.folder / f"begun_{index}").touch()
        _, inputs = exchange.load(self.folder, call["inputs"])
        report: dict[str, Any] = {}
        try:
            self.model.use_instance(call["module"])
            self._load(call["weights"])
            run = self.model.call(inputs, seed=call["seed"], silent=True)
            structure, leaves = exchange.flatten(run.output)
            fitting = _fitting(leaves, [_form_of_leaf(leaf) for leaf in leaves], call["outputs"])
            exchange.save(self.folder, f"output_{index}", fitting, structure=structure)
        except Exception as error:  # noqa: BLE001 - forward may well stumble over what its kernels did not write
            report["failed"] = f"{type(error).__name__}: {error}"[:300]
        self._leave(f"call_{index}.json", report)

    def finish(self) -> None:
        """Save every answer once more, and release it."""
        for index in self.answers.keys() - self.settled:
            exchange.save(self.folder, f"late_{index}", self.answers[index])
        given = [leaf for leaves in self.answers.values() for leaf in leaves if _is_plain(leaf)]
        memories = {_storage(leaf): StorageWeakRef(leaf.untyped_storage()) for leaf in given}
        del given
        self.answers.clear()
        self.model.release()
        if sum(not memory.expired() for memory in memories.values()) > FEW_KEPT:
            gc.collect()
        kept = sum(not memory.expired() for memory in memories.values())
        self._leave("kept.json", {"kept": kept, "given": len(memories)})

    def _leave(self, name: str, report: dict[str, Any] | list[str]) -> None:
        """Write a report whole or not at all: whoever kills the process may do so while it writes."""
        beside = self.folder / f"{name}.part"
        beside.write_text(json.dumps(report))
        beside.replace(self.folder / name)

    def _aliases(self, leaves: list[Any], own: dict[str, torch.Tensor]) -> list[str]:
        """Name the owners of memory that the answer shares."""
        owners = {_storage(x): "an input" for x in tree_leaves(self.inputs) if _is_plain(x)}
        owners |= {_storage(x): f"the parameter or buffer {name}" for name, x in own.items() if _is_plain(x)}
        return sorted({owners[_storage(x)] for x in leaves if _is_plain(x) and _storage(x) in owners})


def put_into(old: list[Any], new: list[Any]) -> list[Any]:
    """Put new content in the tensors of the last call without moving their version counters.

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
            and bool(torch.ops.aten.is_non_overlapping_and_dense(a))
        )

    placed = []
    for before, after in zip(old, new, strict=True):
        if same_form(before, after):
            ctypes.memmove(before.data_ptr(), after.data_ptr(), after.numel() * after.element_size())
            placed.append(before)
        else:
            placed.append(after)
    return placed


def _as_view(x: Any) -> Any:
    """A view with the same content in the middle of a larger, poisoned tensor."""
    if not isinstance(x, torch.Tensor):
        return x
    room = ROOM // x.element_size()
    whole = torch.zeros(x.numel() + 2 * room, dtype=x.dtype)
    fill_with_poison(whole)
    view = whole.as_strided(x.shape, x.stride(), room)
    view.copy_(x)
    return view


def _storage(x: torch.Tensor) -> int:
    return x.untyped_storage().data_ptr() if x.numel() else -id(x)


@contextmanager
def _read(what: str) -> Iterator[None]:
    """Report a failure to read what the candidate made as its own fault.

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
    """Whether a value is a plain tensor with memory of its own."""
    return isinstance(value, torch.Tensor) and "shape" in describe_leaf(value, ())


def _form_of_leaf(leaf: Any) -> Form:
    """Describe a leaf of an answer; empty for a plain number."""
    return {} if isinstance(leaf, exchange.SCALARS) else describe_leaf(leaf, ())


def _fitting(leaves: list[Any], forms: list[Form], due: list[Form]) -> list[Any]:
    """Keep the leaves that have the due form; None for the others."""
    return [
        leaf if not form or (i < len(due) and all(form.get(key) == due[i][key] for key in KEYS)) else None
        for i, (leaf, form) in enumerate(zip(leaves, forms, strict=True))
    ]


def _form(value: Any) -> Form:
    """Shape and dtype of a tensor; empty for anything else."""
    form = describe_leaf(value, ()) if isinstance(value, torch.Tensor) else {}
    return {key: form[key] for key in KEYS} if "shape" in form else {}


def _as_it_is(value: Any, due: Form) -> Any:
    """Return an input or weight; words where its form has changed."""
    if not due or _form(value) == due:
        return value
    form = describe_leaf(value, ())
    return str(form.get("strange") or f"{form['dtype']}{form['shape']}")

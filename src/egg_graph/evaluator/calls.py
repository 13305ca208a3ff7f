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
from egg_graph.evaluator.faults import KernelFault
from egg_graph.evaluator.worker_output import describe_leaf

if TYPE_CHECKING:
    from egg_graph.evaluator.interpreter import RealModel


class Calls:
    """Call `n` leaves in the folder, all written before the next one starts:

    - `output_n`  its answer, unless leaves are strange;
    - `after_n`   the inputs as it left them;
    - `weights_n` parameters and buffers as it left them;
    - `call_n.json` launches, findings, strange leaves, aliases (a silent one: why it failed, if it did);

    and at the end `late_n`, the same answer once more.
    """

    def __init__(self, model: RealModel, folder: Path) -> None:
        self.model, self.folder = model, folder
        self.inputs: list[Any] = []
        self.answers: dict[int, list[torch.Tensor]] = {}

    def make(self, index: int, call: dict[str, Any]) -> None:
        """One call, as `jobs.interpret` describes it."""
        (self.folder / f"begun_{index}").touch()
        if call["weights"] is not None:
            _, values = exchange.load(self.folder, call["weights"]["file"])
            self.model.load(dict(zip(call["weights"]["names"], values, strict=True)))
        _, fresh = exchange.load(self.folder, call["inputs"])
        self.inputs = put_into(self.inputs, fresh) if call["reuse"] else fresh
        run = self.model.call(self.inputs, seed=call["seed"])
        with _read("the answer"):
            structure, leaves = exchange.flatten(run.output)
            strange = sorted({_strange(leaf) for leaf in leaves} - {""})
            if not strange:
                exchange.save(self.folder, f"output_{index}", leaves, structure=structure)
                self.answers[index] = leaves
        with _read("an input after forward"):
            exchange.save(self.folder, f"after_{index}", self.inputs)
        with _read("state_dict() of ModelNew"):
            exchange.save(self.folder, f"weights_{index}", list(self.model.model.state_dict().values()))
            aliases = self._aliases(leaves)
        report = {
            "kernels": [launch.kernel for launch in run.launches],
            "library": list(run.library),
            "strange": strange,
            "findings": [finding.model_dump() for finding in (*run.races, *run.unwritten)],
            "aliases": aliases,
            "overlapping": [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor) and _overlaps(x)],
        }
        (self.folder / f"call_{index}.json").write_text(json.dumps(report))

    def make_silent(self, index: int, call: dict[str, Any]) -> None:
        """The same with kernels that do nothing. How it fails, if it does, is nobody's fault."""
        (self.folder / f"begun_{index}").touch()
        _, values = exchange.load(self.folder, call["weights"]["file"])
        _, inputs = exchange.load(self.folder, call["inputs"])
        report: dict[str, Any] = {}
        try:
            self.model.load(dict(zip(call["weights"]["names"], values, strict=True)))
            run = self.model.call(inputs, seed=call["seed"], silent=True)
            structure, leaves = exchange.flatten(run.output)
            exchange.save(self.folder, f"output_{index}", leaves, structure=structure)
        except Exception as error:  # noqa: BLE001 - forward may well stumble over what its kernels did not write
            report["failed"] = f"{type(error).__name__}: {error}"[:300]
        (self.folder / f"call_{index}.json").write_text(json.dumps(report))

    def finish(self) -> None:
        """Look at every answer once more."""
        for index, leaves in self.answers.items():
            exchange.save(self.folder, f"late_{index}", leaves)

    def _aliases(self, leaves: list[Any]) -> list[str]:
        """Whose memory the answer lies in, where it is not its own."""
        owners = {_storage(x): "an input" for x in tree_leaves(self.inputs) if isinstance(x, torch.Tensor)}
        owners |= {_storage(x): f"the parameter or buffer {n}" for n, x in self.model.model.state_dict().items()}
        return sorted({owners[_storage(x)] for x in leaves if isinstance(x, torch.Tensor) and _storage(x) in owners})


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


def _overlaps(x: torch.Tensor) -> bool:
    """Several elements share memory, as after `expand`."""
    return any(stride == 0 and size > 1 for size, stride in zip(x.shape, x.stride(), strict=True))


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


def _strange(leaf: Any) -> str:
    """What a leaf is that no answer may hold; empty for plain tensors and numbers."""
    return "" if isinstance(leaf, exchange.SCALARS) else str(describe_leaf(leaf, ()).get("strange", ""))

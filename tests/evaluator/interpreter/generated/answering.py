"""Run in a process of its own: answer generated kernels, one line of JSON each.

    python -m tests.evaluator.interpreter.generated.answering SIDE FOLDER NAME...

SIDE is `interpreter` (wants TRITON_INTERPRET=1), `compiler` (compiles what the interpreter launched, in FOLDER) or
`gpu`. FOLDER holds the kernels as modules; a NAME is `category_000`. A line before each answer names the kernel that
is begun, so that whoever reads it knows which one ended the process.
"""

import contextlib
import json
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.evaluator.interpreter.generated.catalogue import generated
from tests.evaluator.interpreter.generated.comparison import Answer
from tests.evaluator.interpreter.generated.writer import GeneratedKernel

Answering = Callable[[GeneratedKernel, Path], dict[str, Any]]


def main(side: str, folder: Path, names: list[str]) -> None:
    """Answer the kernels in turn. What a kernel prints goes to standard error."""
    answers = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        answering = SIDES[side]()
        for name in names:
            category, _, number = name.rpartition("_")
            print(json.dumps({"begin": name}), file=answers, flush=True)
            answer = answering(generated(category, int(number)), folder / f"{name}.py")
            ends = answer.pop("ends", False)
            print(json.dumps({"name": name, **answer}), file=answers, flush=True)
            if ends:
                return


def interpreter() -> Answering:
    """Interpret under guard; a launch is written beside the module, for the compiler."""
    from egg_graph.evaluator.interpreter import KernelFault, RealModel

    def answer(kernel: GeneratedKernel, path: Path) -> dict[str, Any]:
        try:
            run = RealModel(path, (), {}).call([draw.tensor() for draw in kernel.inputs])
        except KernelFault as fault:
            finding = fault.finding()
            return {"refused": f"{finding.kind}: {finding.message} ({finding.where})", "kind": finding.kind}
        except Exception as error:  # noqa: BLE001 - every outcome is an answer
            return {"refused": _said(error), "kind": "error"}
        path.with_suffix(".json").write_text(run.launches[0].model_dump_json())
        return {"outputs": [Answer.of_tensor(tensor).to_json() for tensor in run.output]}

    return answer


def compiler() -> Answering:
    """Compile the launch that the interpreter recorded for the H200, without a GPU."""
    from egg_graph.evaluator.aot import compile_launch
    from egg_graph.evaluator.interpreter import KernelFault, Launch
    from egg_graph.knowledge import load_hardware

    target = load_hardware("h200")

    def answer(kernel: GeneratedKernel, path: Path) -> dict[str, Any]:
        recorded = path.with_suffix(".json")
        if not recorded.exists():
            return {"skipped": "no launch was recorded"}
        try:
            compile_launch(path, Launch.model_validate_json(recorded.read_text()), target)
        except KernelFault as fault:
            return {"refused": f"{fault.finding().message} ({fault.finding().where})"}
        return {"outputs": []}

    return answer


def gpu() -> Answering:
    """Compile and run on the GPU. After a fault of the device, no further kernel runs in this process."""
    import importlib.util

    import torch
    import triton

    triton.set_allocator(lambda size, _alignment, _stream: torch.empty(size, dtype=torch.int8, device="cuda"))
    torch.zeros(1, device="cuda")

    def answer(kernel: GeneratedKernel, path: Path) -> dict[str, Any]:
        try:
            spec = importlib.util.spec_from_file_location(path.stem, path)
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            outputs = module.ModelNew()(*[draw.tensor().cuda() for draw in kernel.inputs])
            torch.cuda.synchronize()
            return {"outputs": [Answer.of_tensor(tensor).to_json() for tensor in outputs]}
        except Exception as error:  # noqa: BLE001 - every outcome is an answer
            return {"refused": _said(error), "ends": not _device_works()}

    return answer


def _device_works() -> bool:
    """Whether the GPU still answers this process; after an illegal access it answers no more."""
    import torch

    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return False
    return True


def _said(error: BaseException) -> str:
    """Type and message of an error, with those of what caused it."""
    text = "".join(traceback.format_exception_only(error)).strip()
    cause = error.__cause__
    return text if cause is None else f"{text} <- {_said(cause)}"


SIDES: dict[str, Callable[[], Answering]] = {"interpreter": interpreter, "compiler": compiler, "gpu": gpu}

if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])

"""`python kernelbench_process.py`: let KernelBench, from a checkout of its own, judge one kernel, or several in turn.

Reads a JSON request on standard input and prints one line of JSON for each kernel; before those of a list (`kernels`)
one that says that its imports are done. Nothing of KernelBench is in this repository.
"""

import importlib
import importlib.util
import json
import sys
import time
import types
from pathlib import Path
from typing import Any

UNUSED = {
    "dotenv": ("load_dotenv",),
    "openai": ("OpenAI",),
    "litellm": ("completion",),
    "requests": (),
    "tqdm": ("tqdm",),
    "datasets": ("load_dataset",),
}
"""Modules that KernelBench imports for prompts and datasets, with the names it takes; its evaluation uses none."""


def main() -> None:
    """Judge the kernels, and print the seconds and the verdict of each."""
    request = json.load(sys.stdin)
    stand_ins = [name for name in UNUSED if importlib.util.find_spec(name) is None]
    for name in stand_ins:
        sys.modules[name] = _stand_in(name)
    sys.path.insert(0, str(Path(request["checkout"]) / "src"))
    import torch

    if not torch.cuda.is_available():
        sys.exit("KernelBench needs a CUDA GPU")
    evaluation = _evaluation()
    if "kernels" in request:
        print("\n" + json.dumps({"started": True}), flush=True)
    for kernel in request.get("kernels", [request]):
        answer = _judge(evaluation, kernel, request["precision"], int(request["warm"]))
        print("\n" + json.dumps({**answer, "stand_ins": stand_ins}), flush=True)


def _judge(evaluation: Any, kernel: dict[str, str], precision: str, warm: int) -> dict[str, Any]:
    """Judge one kernel once, and `warm` times more."""
    import torch

    seconds: list[float] = []
    result: Any = None
    for _ in range(1 + warm):
        begun = time.monotonic()
        result = evaluation.eval_kernel_against_ref(
            kernel["reference"],
            kernel["candidate"],
            measure_performance=True,
            num_correct_trials=5,
            num_perf_trials=100,
            backend="triton",
            precision=evaluation.get_torch_dtype_from_string(precision),
            device=torch.device("cuda:0"),
        )
        seconds.append(time.monotonic() - begun)
    if result is None:
        sys.exit("eval_kernel_against_ref answered nothing")
    return {
        "first_seconds": seconds[0],
        "warm_seconds": seconds[1:],
        "compiled": bool(result.compiled),
        "correct": bool(result.correctness),
        "runtime": float(result.runtime),
    }


def _evaluation() -> Any:
    """KernelBench's evaluation module: `kernelbench.eval`, in older checkouts `src/eval.py`."""
    try:
        return importlib.import_module("kernelbench.eval")
    except ModuleNotFoundError as error:
        if error.name not in ("kernelbench", "kernelbench.eval"):
            raise
        return importlib.import_module("eval")


def _stand_in(name: str) -> types.ModuleType:
    module = types.ModuleType(name)
    for attribute in UNUSED[name]:
        setattr(module, attribute, lambda *_args, **_options: None)
    return module


if __name__ == "__main__":
    main()

"""`python -m tests.lab.survey_process`: time eager, compiled and the expert's kernels for one reference on one GPU.

Reads a JSON request on standard input and prints an answer, a line of JSON, after every kernel: the last one counts.
The kernels are the expert's own: they run with all rights. Knobs are turned one after the other, from the best so far.
"""

import copy
import fcntl
import functools
import json
import os
import statistics
import sys
import tempfile
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

FLUSHED_BYTES = 256 * 2**20
"""Zeroed before every timed call: five times the L2 of an H200."""
BETTER = 0.99
"""A time below this part of the best so far counts as better."""
STAGES = ("tensor_tiling", "parallel_mapping", "memory_optimization")
"""In the order of turning."""

Config = dict[str, Any]


def main() -> None:
    """Time everything that the request names, and print the answer."""
    request = json.load(sys.stdin)
    import torch

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = request["precision"] == "tf32"
    answer: dict[str, Any] = {"pytorch": {}, "kernels": {}, "failed": {}}
    with torch.no_grad():
        for label, part, value in measured(request):
            answer[part][label] = value
            print(json.dumps(answer), flush=True)


def measured(request: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Yield for PyTorch and every kernel its name, `pytorch`, `kernels` or `failed`, and times or message."""
    import torch

    repeats = int(request["repeats"])
    reference = module("reference", request["reference"])
    init: list[Any] = getattr(reference, "get_init_inputs", list)()
    torch.manual_seed(0)
    model = reference.Model(*init).cuda()
    with torch.device("cuda"):
        inputs = [x.cuda() if isinstance(x, torch.Tensor) else x for x in reference.get_inputs()]
    yield "eager", "pytorch", milliseconds(lambda: model(*inputs), repeats)
    if request["compile"]:
        compiled = torch.compile(model)
        yield "compile", "pytorch", milliseconds(lambda: compiled(*inputs), repeats)
    for label, call in switched(model, inputs) if request["switches"] else ():
        yield label, "pytorch", in_a_thread(functools.partial(milliseconds, call, repeats))
    for label, kernel in request["kernels"].items():
        written = module(f"kernel_{label}", kernel["source"])
        try:
            new = written.ModelNew(*init).cuda()
            new.load_state_dict(model.state_dict())
            call = functools.partial(new, *inputs)
            times = turned(written.CONFIG, kernel["space"], functools.partial(milliseconds, call, repeats))
        except Exception as error:  # noqa: BLE001 - a kernel may fail in any way, and its message is the result
            yield label, "failed", f"{type(error).__name__}: {error}"[:300]
        else:
            yield label, "kernels", times


def switched(model: Any, inputs: Sequence[Any]) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield the forwards of a model with convolutions under PyTorch's own switches; the inputs come as they are."""
    import torch

    convolutions = [m for m in model.modules() if isinstance(m, torch.nn.modules.conv._ConvNd)]
    if not convolutions:
        return
    layout = {4: torch.channels_last, 5: torch.channels_last_3d}.get(convolutions[0].weight.dim())
    laid = None if layout is None else copy.deepcopy(model).to(memory_format=layout)
    for benchmark, label in ((False, ""), (True, "cudnn.benchmark")):
        torch.backends.cudnn.benchmark = benchmark
        if benchmark:
            yield label, lambda: model(*inputs)
        if laid is not None:
            yield " ".join(filter(None, (label, "channels_last"))), lambda: laid(*inputs)
    torch.backends.cudnn.benchmark = False


def in_a_thread(time: Callable[[], float]) -> float:
    """Call `time` in a thread of its own: cuDNN keeps its choices per thread, and searches for none that it guessed."""
    import torch

    def act() -> float:
        with torch.no_grad():
            return time()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(act).result()


def turned(
    config: Config, space: Mapping[str, Mapping[str, Sequence[Any]]], time: Callable[[], float]
) -> list[tuple[Config, float]]:
    """Turn one knob after the other, keep each value that is better, and return all times that were measured.

    Args:
        config: the knobs that `time` reads; it ends as the best.
        space: the values to try, by stage and knob.
        time: the time of the present knobs; whatever it raises is raised for the first, and skipped for the others.
    """
    times = [(dict(config), time())]
    best, least = times[0]
    for knob, values in ((knob, values) for stage in STAGES for knob, values in space.get(stage, {}).items()):
        for value in values:
            config.update({**best, knob: value})
            if any(config == known for known, _ in times):
                continue
            try:
                times.append((dict(config), time()))
            except Exception as error:  # noqa: BLE001 - not every tile fits; its failure is told
                print(f"{knob}={value}: {type(error).__name__}: {error}"[:300], file=sys.stderr)
                continue
            if times[-1][1] < BETTER * least:
                best, least = times[-1]
        config.update(best)
    return times


def milliseconds(call: Callable[[], object], repeats: int) -> float:
    """The median of calls after one that warms up, the L2 flushed before each [ms]."""
    import torch

    flushed = torch.empty(FLUSHED_BYTES, dtype=torch.uint8, device="cuda")
    call()
    torch.cuda.synchronize()
    times: list[float] = []
    with alone_on_the_gpu():
        for _ in range(repeats):
            flushed.zero_()
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            call()
            end.record()
            torch.cuda.synchronize()
            times.append(begin.elapsed_time(end))
    return round(statistics.median(times), 4)


@contextmanager
def alone_on_the_gpu() -> Iterator[None]:
    """Time nothing while another process of the survey times on the same GPU."""
    gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "all").replace(",", "-")
    with open(os.path.join(tempfile.gettempdir(), f"egg-survey-gpu-{gpu}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def module(name: str, path: str) -> types.ModuleType:
    """Run a file as a module of its own: Triton reads the source of its kernels."""
    import importlib.util

    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(path)
    loaded = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


if __name__ == "__main__":
    main()

"""Run in a process with TRITON_INTERPRET=1: execute all cases of the candidates and print the outcome as JSON."""

import importlib.util
import json
import sys
import traceback

import torch

from egg_graph.evaluator.interpreter import KernelFault, RealModel, TensorSpec, run_fake
from egg_graph.schema import Hardware
from tests.paths import CORPUS

CASES = {path.name: path for path in CORPUS.glob("*/_cases/*.py")}


def cases_of(path):
    spec = importlib.util.spec_from_file_location(f"cases_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.CASES


def relative_error(output, expected):
    output, expected = output.double(), expected.double()
    assert output.shape == expected.shape, (output.shape, expected.shape)
    return float((output - expected).norm() / expected.norm().clamp_min(1e-30))


def outcome(action):
    try:
        return action()
    except KernelFault as fault:
        return {"fault": fault.finding().model_dump()}
    except Exception as error:  # noqa: BLE001 - every outcome is reported to the test
        return {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}


def real(path, name, inputs, reference=None):
    def action():
        run = RealModel(path, (name,), {}).call([x.clone() for x in inputs])
        wide = [x.double() if x.dtype == torch.float32 else x for x in inputs]
        return {
            "error_norm": relative_error(run.output, reference(*wide)) if reference else None,
            "finite": bool(torch.isfinite(run.output.double()).all()),
            "races": [f.model_dump() for f in run.races],
            "unwritten": [f.model_dump() for f in run.unwritten],
            "launches": [launch.model_dump() for launch in run.launches],
        }

    return outcome(action)


def fake(path, name, specs, hardware):
    def action():
        inputs = [TensorSpec(**spec) for spec in specs]
        # Counts are held against closed forms: a busy machine must not leave programs out.
        run = run_fake(path, (name,), {}, inputs, hardware=hardware, budget_seconds=60.0)
        return json.loads(run.model_dump_json())

    return outcome(action)


def main():
    jobs = json.load(sys.stdin)
    hardware = Hardware.model_validate(jobs["hardware"])
    results = {"real": {}, "faulty": {}, "fake": {}}
    for file in jobs["real"]:
        path = CASES[file]
        for name, (_, make_inputs, reference, _) in cases_of(path).items():
            torch.manual_seed(1)
            results["real"][name] = real(path, name, make_inputs(), reference)
    for name in jobs["faulty"]:
        torch.manual_seed(1)
        results["faulty"][name] = real(CASES["faulty.py"], name, [torch.randn(130)])
    for key, (file, name, specs) in jobs["fake"].items():
        results["fake"][key] = fake(CASES[file], name, specs, hardware)
    print(json.dumps(results))


if __name__ == "__main__":
    main()

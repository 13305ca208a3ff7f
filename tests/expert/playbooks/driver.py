"""Children of the tests: `interpret` writes and interprets candidates (TRITON_INTERPRET=1), `compile` compiles.

Both read a job from standard input and print their answer as the last line, in JSON.
"""

import json
import os
import sys
import traceback
from pathlib import Path

import torch

from egg_graph.schema import Hardware
from tests.expert.playbooks.cases import CASES, POLICY_DTYPE, load_reference, write_candidate


def in_child(action):
    """Run in a fork: a real run and a fake run each need a process of their own."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer = action()
        except Exception as error:  # noqa: BLE001 - every outcome is reported to the test
            answer = {"problem": f"{type(error).__name__}: {error} {getattr(error, 'where', '')}"}
            traceback.print_exc()
        with os.fdopen(write, "w") as pipe:
            json.dump(answer, pipe)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else {"problem": "died"}


def real(path, name, kind):
    from egg_graph.evaluator.interpreter import RealModel

    precision = kind.split("/")[0]
    errors, faults = [], []
    for shape in CASES[name].shapes:
        model, init, inputs, expected = load_reference(name, shape, precision)
        loaded = RealModel(path, init, {}, dtype=POLICY_DTYPE.get(precision))
        loaded.load(model.state_dict())
        run = loaded.call(inputs)
        assert run.output.shape == expected.shape, (run.output.shape, expected.shape)
        difference = (run.output.double() - expected.double()).norm() / expected.double().norm()
        errors.append(float(difference))
        faults += [f.message for f in (*run.races, *run.unwritten)]
    return {
        "errors": errors,
        "faults": faults,
        "dtype": str(run.output.dtype),
        "kernels": [x.kernel for x in run.launches],
    }


def fake(path, name, kind, hardware):
    from egg_graph.evaluator.interpreter import run_fake

    namespace = {"__name__": "reference"}
    exec(compile(CASES[name].reference, name, "exec"), namespace)
    dtype = POLICY_DTYPE.get(kind.split("/")[0])
    init = namespace["get_init_inputs"]()
    run = run_fake(path, init, {}, namespace["get_inputs"], hardware=hardware, dtype=dtype)
    return {"launches": [launch.model_dump() for launch in run.launches]}


def interpret(job):
    from egg_graph.evaluator.interpreter import install

    torch.set_num_threads(1)  # a fork keeps no other threads
    install()  # once for all children
    hardware, folder, graphs = Hardware.model_validate(job["hardware"]), Path(job["folder"]), {}
    answers = {}
    for name, kind in job["candidates"]:
        path = write_candidate(name, kind, folder, graphs)
        answer = in_child(lambda path=path, name=name, kind=kind: real(path, name, kind))
        if kind in CASES[name].compile:
            answer["fake"] = in_child(lambda path=path, name=name, kind=kind: fake(path, name, kind, hardware))
        answers[f"{name}/{kind}"] = {**answer, "path": str(path)}
    return answers


def compile_launches(job):
    from egg_graph.evaluator.aot import KernelFault, compile_launch
    from egg_graph.evaluator.wire.launches import Launch

    hardware, answers = Hardware.model_validate(job["hardware"]), {}
    for key, (path, launches) in job["launches"].items():
        answers[key] = []
        for launch in launches:
            try:
                found = compile_launch(path, Launch.model_validate(launch), hardware)
                answers[key].append(found.model_dump())
            except KernelFault as fault:
                answers[key].append({"kernel": launch["kernel"], "fault": fault.finding().message})
    return answers


if __name__ == "__main__":
    given = json.load(sys.stdin)
    print(json.dumps(interpret(given) if sys.argv[1] == "interpret" else compile_launches(given)))

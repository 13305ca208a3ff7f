"""Run in a process without TRITON_INTERPRET: compile recorded launches and print resources or faults as JSON."""

import json
import sys

from egg_graph.evaluator.aot import KernelFault, Launch, compile_launch
from egg_graph.schema import Hardware
from tests.paths import CORPUS

CASES = {path.name: path for path in CORPUS.glob("*/_cases/*.py")}


def main():
    results = {}
    for key, job in json.load(sys.stdin).items():
        launch = Launch.model_validate(job["launch"])
        hardware = Hardware.model_validate(job["hardware"])
        try:
            resources = compile_launch(CASES[job["file"]], launch, hardware)
            results[key] = {"resources": resources.model_dump()}
        except KernelFault as fault:
            results[key] = {"fault": fault.finding().model_dump()}
    print(json.dumps(results))


if __name__ == "__main__":
    main()

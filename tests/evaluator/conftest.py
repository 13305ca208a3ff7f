"""Each kind of process is started once: one interprets every candidate, one compiles what was launched."""

import fcntl
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from egg_graph.schema import Figure, Hardware
from tests.paths import CHILD_SECONDS, CORPUS, IMPORTABLE, UNCOLLECTED

HERE = Path(__file__).parent
MATRIX = {"shape": [2048, 2048]}
REAL = ["pointwise.py", "rows.py", "matmuls.py", "launching.py", "shuffling.py", "python.py"]
FAULTY = [
    "no_barrier", "wrote_after_its_ticket", "load_past_end", "store_past_end", "load_before_start", "accumulate",
    "everyone_stores", "shift_in_place",
    "lanes_collide", "off_by_one_mask", "max_of_undefined", "unknown_libdevice", "unknown_assembly", "missing_import",
    "no_such_function", "uncovered", "unknown_option", "huge_grid", "branch_on_block", "while_on_block", "asks_python",
    "chain_of_comparisons", "counts_down", "numbers_in_words", "waits_for_the_next",
    "everyone_waits_first", "reads_before_all_arrive",
]  # fmt: skip
FAKE = {
    "matmul": ("matmuls.py", "matmul_tf32", [MATRIX, MATRIX]),
    "matmul_rounded": ("matmuls.py", "matmul_tf32_rounded", [MATRIX, MATRIX]),
    "matmul_bf16": ("matmuls.py", "matmul_bf16", [{**MATRIX, "dtype": "bfloat16"}] * 2),
    "softmax_wide": ("rows.py", "softmax", [{"shape": [4096, 393216]}]),
    "softmax": ("rows.py", "softmax", [MATRIX]),
    "persistent": ("rows.py", "persistent", [{"shape": [12, 512]}]),
    "host_descriptor": ("matmuls.py", "host_descriptor", [{"shape": [1024, 512]}, {"shape": [512, 512]}]),
    "device_descriptor": ("matmuls.py", "device_descriptor", [{"shape": [1024, 512]}, {"shape": [512, 512]}]),
    "tuned": ("launching.py", "tuned", [{"shape": [2**20]}]),
    "tuples": ("launching.py", "tuples", [{"shape": [1024, 1024]}]),
    "by_property": ("launching.py", "by_property", [{"shape": [2**14]}]),
    "misaligned": ("pointwise.py", "add", [{"shape": [1000, 1001]}] * 2),
    "aligned": ("pointwise.py", "add", [{"shape": [1024, 1024]}] * 2),
    "shared_memory_hog": ("matmuls.py", "shared_memory_hog", [MATRIX, MATRIX]),
    "overflow": ("faulty.py", "overflow", [{"shape": [70_000, 40_000]}]),
    "break_in_loop": ("faulty.py", "break_in_loop", [{"shape": [100]}]),  # the interpreter comes to no break
    "uncovered": ("faulty.py", "uncovered", [{"shape": [130]}]),
    "in_slices": ("launching.py", "in_slices", [{"shape": [2**20]}]),
    "last_slice": ("faulty.py", "last_slice", [{"shape": [130]}]),
    "library": ("library.py", "mixed", [MATRIX, MATRIX]),
    "needs_values": ("library.py", "needs_values", [MATRIX]),
}


def in_process(script: str, jobs: Any, **environment: str) -> Any:
    """Run a driver with `jobs` on its standard input; its last line of output is the answer."""
    inherited = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    inherited["PYTHONPATH"] = os.pathsep.join(filter(None, [inherited.get("PYTHONPATH"), IMPORTABLE]))
    done = subprocess.run(
        [*UNCOLLECTED, HERE / script],
        input=json.dumps(jobs),
        capture_output=True,
        text=True,
        timeout=CHILD_SECONDS,
        env={**inherited, **environment},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[], Any]) -> Any:
    """What `make` answers, made by the first of xdist's workers that asks; the others wait for it."""
    workers = factory.getbasetemp()
    folder = workers.parent if "PYTEST_XDIST_WORKER" in os.environ else workers
    with open(folder / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        answer = folder / f"{name}.json"
        if not answer.exists():
            answer.write_text(json.dumps(make()))
        return json.loads(answer.read_text())


@pytest.fixture(scope="session")
def mi300x() -> Hardware:
    """An MI300X by its data sheet."""
    figures = {
        "shared_memory_per_block": 65536, "shared_memory_per_multiprocessor": 65536, "multiprocessors": 304,
        "registers_per_multiprocessor": 131072, "max_warps_per_multiprocessor": 32, "max_blocks_per_multiprocessor": 32,
        "warp_size": 64,
    }  # fmt: skip
    values = {name: Figure(value=value, unit="SI", source="AMD CDNA 3") for name, value in figures.items()}
    return Hardware(key="mi300x", name="AMD MI300X", vendor="amd", arch="gfx942", figures=values)


@pytest.fixture(scope="session")
def a100(h200: Hardware) -> Hardware:
    """An A100, as far as compilation asks."""
    limits = {"shared_memory_per_block": 166912, "shared_memory_per_multiprocessor": 167936}
    figures = {name: Figure(value=value, unit="byte", source="CUDA C++ guide") for name, value in limits.items()}
    return h200.model_copy(
        update={"key": "a100", "name": "NVIDIA A100", "arch": "sm_80", "figures": {**h200.figures, **figures}}
    )


@pytest.fixture(scope="session")
def interpreted(h200: Hardware, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Outcomes of all real, faulty and fake runs."""
    jobs = {"hardware": h200.model_dump(), "real": REAL, "faulty": FAULTY, "fake": FAKE}
    return made_once(
        tmp_path_factory, "interpreted", lambda: in_process("interpreter/driver.py", jobs, TRITON_INTERPRET="1")
    )


@pytest.fixture(scope="session")
def compiled(
    interpreted: Any, h200: Hardware, a100: Hardware, mi300x: Hardware, tmp_path_factory: pytest.TempPathFactory
) -> Any:
    """Outcomes of compiling recorded launches, by `case@architecture`."""
    targets = {"sm_90": h200, "sm_80": a100, "gfx942": mi300x}
    wanted = [
        "softmax@sm_90", "softmax@sm_80", "softmax@gfx942", "matmul@sm_90", "matmul@sm_80", "matmul@gfx942",
        "matmul_rounded@sm_90", "matmul_rounded@gfx942", "matmul_bf16@sm_90", "host_descriptor@sm_90",
        "device_descriptor@sm_90", "tuned@sm_90", "tuples@sm_90", "by_property@sm_90", "aligned@sm_90",
        "misaligned@sm_90", "shared_memory_hog@sm_90", "break_in_loop@sm_90",
    ]  # fmt: skip
    jobs = {}
    for key in wanted:
        case, _, arch = key.partition("@")
        launch = interpreted["fake"][case]["launches"][0]
        jobs[key] = {"file": FAKE[case][0], "launch": launch, "hardware": targets[arch].model_dump()}
    other = {**interpreted["fake"]["uncovered"]["launches"][0], "kernel": "no_such_function"}
    jobs["no_such_function@sm_90"] = {"file": "faulty.py", "launch": other, "hardware": h200.model_dump()}
    cache = str(tmp_path_factory.mktemp("triton"))
    return made_once(tmp_path_factory, "compiled", lambda: in_process("aot/driver.py", jobs, TRITON_CACHE_DIR=cache))


@pytest.fixture(scope="session")
def fault_lines() -> dict[str, int]:
    """Line of each `# fault: name` mark in the faulty candidates."""
    lines = (CORPUS / "faults" / "_cases" / "faulty.py").read_text().splitlines()
    return {
        line.rpartition("# fault: ")[2]: number for number, line in enumerate(lines, start=1) if "# fault: " in line
    }

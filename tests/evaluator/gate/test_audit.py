"""The tripwire names what code does at run time that no syntax tree tells; what kernels need goes through."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.paths import IMPORTABLE

HERE = Path(__file__).parent
FORBIDDEN = {
    "open": ("def go():\n    return open('/etc/hostname').read()\n", "forbidden_construct", "open"),
    "caught": ("def go():\n    try:\n        open('/etc/hostname')\n    except BaseException:\n        pass\n",
               "forbidden_construct", "line 3, in go"),
    "import": ("def go():\n    import sqlite3\n", "forbidden_import", "sqlite3"),
    "import by name": ("import importlib\ndef go():\n    importlib.import_module('sqlite3')\n",
                       "forbidden_construct", "line 3"),
    "import at the top": ("import cmd\ndef go():\n    return 1\n", "forbidden_import", "line 1"),
    "exec": ("def go():\n    exec('x = 1')\n", "forbidden_construct", "makes code"),
    "code by replacement": ("def go():\n    go.__code__.replace(co_name='x')\n", "forbidden_construct", "code"),
    "shell": ("import os\ndef go():\n    os.system('true')\n", "forbidden_construct", "os.system"),
    "process": ("import subprocess\ndef go():\n    subprocess.run(['true'])\n", "forbidden_construct", "line 3"),
    "frames": ("import sys\ndef go():\n    sys._getframe(1)\n", "forbidden_construct", "caller"),
    "stack by library": ("import torch\ndef go():\n    torch.cuda.traceback.extract_stack()\n",
                         "forbidden_construct", "caller"),
    "collector": ("import gc\ndef go():\n    gc.get_objects()\n", "forbidden_construct", "memory"),
    "torch.load": ("import torch\ndef go():\n    torch.load('x.pt')\n", "forbidden_construct", "open"),
    "numpy.fromfile": ("import numpy\ndef go():\n    numpy.fromfile('/etc/hostname', 'u1')\n",
                       "forbidden_construct", "open"),
    "folders": ("import torch\ndef go():\n    torch.glob.glob('/etc/*')\n", "forbidden_construct", "glob"),
    "ctypes": ("import torch\ndef go():\n    torch.ctypes.CDLL(None)\n", "forbidden_construct", "ctypes"),
    "NVIDIA's management library": ("import torch\ndef go():\n    torch.cuda.pynvml.nvmlInit()\n",
                                    "forbidden_construct", "ctypes"),
    "a C compiler": ("import torch\ndef go():\n    from triton.runtime import build\n"
                     "    build.compile_module_from_src('int x;', 'x')\n", "forbidden_construct", "line 4"),
    "an annotation's text": ("import functools\n@functools.singledispatch\ndef f(x):\n    return x\n"
                             "def go():\n    @f.register\n    def _(x: '[print(1), int][1]'):\n        return x\n",
                             "forbidden_construct", "exec"),
    "inside a lambda": ("import functools\ndef go():\n    functools.reduce(lambda a, b: open('/dev/null'), [1, 2])\n",
                        "forbidden_construct", "line 3"),
}  # fmt: skip
"""Name -> source, kind, and what message or place must tell. None of these passed through the gate."""
ALLOWED = {
    "allowed imports": "def go():\n    import math, bisect, fractions\n    import torch.nn.functional\n    return 1\n",
    "a dataclass": (
        "import enum\nfrom collections import namedtuple\nfrom dataclasses import dataclass\n"
        "@dataclass(frozen=True)\nclass A:\n    x: int = 1\n"
        "class B(enum.Enum):\n    C = 1\n"
        "def go():\n    return A(2), B.C, namedtuple('N', 'a b')(1, 2)\n"
    ),
    "a named tuple": (
        "from typing import NamedTuple, Optional\nclass P(NamedTuple):\n    n: 'Optional[int]' = 1\n"
        "def go():\n    return P(2)\n"
    ),
    "a warning": "import warnings\ndef go():\n    warnings.warn('x', stacklevel=2)\n    return 1\n",
    "a kernel": (
        "import triton\nimport triton.language as tl\n"
        "@triton.jit\ndef kernel(x_ptr):\n    tl.store(x_ptr, 1.0)\n"
        "def go():\n    return kernel.fn.__name__, triton.cdiv(5, 2)\n"
    ),
    "a module": (
        "import torch\nclass M(torch.nn.Module):\n    def forward(self, x):\n        return torch.softmax(x, 1)\n"
        "def go():\n    return M()(torch.ones(2, 2)).sum().item()\n"
    ),
    "lazy parts of PyTorch": (
        "import torch\ndef go():\n    x = torch.ones(2, 2)\n"
        "    return torch.func.vmap(torch.sin)(x).shape, torch.linalg.norm(x).item()\n"
    ),
}


@pytest.fixture(scope="module")
def reported() -> dict[str, Any]:
    job = {**{name: row[0] for name, row in FORBIDDEN.items()}, **ALLOWED}
    environment = {**os.environ, "PYTHONPATH": IMPORTABLE}
    done = subprocess.run(
        [sys.executable, HERE / "audit_driver.py"],
        input=json.dumps(job), capture_output=True, text=True, timeout=120, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", FORBIDDEN)
def test_what_a_kernel_never_needs_ends_the_process_with_a_name(reported: dict[str, Any], name: str) -> None:
    _, kind, words = FORBIDDEN[name]
    finding = reported[name].get("finding")
    assert finding is not None, reported[name]
    assert finding["kind"] == kind, finding
    assert words in f"{finding['message']} {finding['where']}"


@pytest.mark.parametrize("name", ALLOWED)
def test_what_kernels_need_goes_through(reported: dict[str, Any], name: str) -> None:
    assert "answer" in reported[name], reported[name]

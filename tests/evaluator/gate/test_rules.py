"""The static gate reads structure, not words."""

import time

import pytest

from egg_graph.evaluator.gate import check, judged_text
from egg_graph.evaluator.gate.test_code import without_test_code
from egg_graph.schema import Candidate
from tests.paths import read_source

RIGHT = read_source("right/softmax_one_block.py")


def kinds(source: str, problem: str = "") -> list[str]:
    made = Candidate(source=source, author="test", stage="algorithmic_structure", mode="seed", problem=problem)
    return [finding.kind for finding in check(made)]


HONEST = {
    "as it is": RIGHT,
    "words in comments": RIGHT + "\n# pass, exec(open('x')), torch.compile, import os, try: except: pass\n",
    "an encoding that changes nothing": "# -*- coding: latin-1 -*-\n" + RIGHT,
    "jit with its options": RIGHT.replace(
        "@triton.jit", "jit = functools.partial(triton.jit, do_not_specialize=['n_columns'])\n\n\n@jit"
    ).replace("import triton\n", "import functools\n\nimport triton\n"),
    "a function whose name begins with two underscores": RIGHT + "\n\ndef __prepare(x):\n    return x.contiguous()\n",
    "wraps": RIGHT
    + "\n\nimport functools\n\ndef named(f):\n    @functools.wraps(f)\n    def g(x):\n        return f(x)\n\n"
    "    return g\n",
    "floor division": RIGHT.replace(
        "        out = ", "        half = x.shape[0] // 2  # not a comment\n        out = "
    ),
    "pass in a class": RIGHT + "\n\nclass Marker:\n    pass\n",
    "its own autotuner": RIGHT.replace(
        "@triton.jit", "@triton.autotune(configs=[triton.Config({}, num_warps=4)], key=['n_columns'])\n@triton.jit"
    ),
    "jit by another name": RIGHT.replace("import triton\n", "import triton\nfrom triton import jit\n").replace(
        "@triton.jit", "@jit"
    ),
    "parts of libraries as arguments": RIGHT.replace("import triton\n", "import functools\n\nimport triton\n").replace(
        "        out = ",
        "        fresh = functools.partial(torch.empty, device=x.device, dtype=torch.float32)\n        fresh(3)\n"
        "        mathematics = tl.math if hasattr(tl, 'math') else tl\n        assert getattr(triton, 'cdiv')\n"
        "        out = ",
    ),
    "inputs that may be distributed": "import torch.distributed as dist\ntry:\n"
    "    from torch.distributed.tensor import DTensor\nexcept ImportError:\n    DTensor = ()\n"
    + RIGHT.replace(
        "        out = ",
        "        if isinstance(x, DTensor):\n            x = x.full_tensor()\n"
        "        if dist.is_initialized() and dist.get_world_size() > 1:\n"
        "            torch.distributed.all_reduce(x, op=dist.ReduceOp.SUM)\n        out = ",
    ),
    "builtins' names unpacked": RIGHT
    + "\n\nclass F(torch.autograd.Function):\n    @staticmethod\n    def backward(ctx, g):\n"
    "        (input,) = ctx.saved_tensors\n        for vars in ctx.more:\n            input = input + vars\n"
    "        with ctx.lock as open:\n            return input * g * open\n",
    "kept out of a compiler": RIGHT
    + "\n\n@torch.compiler.disable\ndef wrapper(x):\n    return x if torch.compiler.is_compiling() else x + 0\n",
    "its own environment variables": "import os\n"
    + RIGHT
    + "\n\nFAST = os.environ.get('MY_KERNELS_FAST', '1')\nROWS = os.getenv(f'MY_KERNELS_ROWS_{FAST}')\n",
    "a version compared": "from packaging import version\n"
    + RIGHT
    + "\n\nNEW = version.parse(triton.__version__) >= version.parse('3.4.0')\n",
    "wrapped for a tracer": RIGHT + "\n\n@torch.fx.wrap\ndef wrapper(x):\n    torch._check(x.dim() > 0)\n"
    "    return x + 0 if torch.jit.is_scripting() else x\n",
    "a package that may be installed": RIGHT
    + "\n\ndef on_npu():\n    try:\n        from transformers.utils import is_torch_npu_available\n\n"
    "        return is_torch_npu_available()\n    except Exception:\n        return False\n",
    "a package for another branch": RIGHT
    + "\n\ndef residual(x):\n    import vllm._custom_ops as ops\n\n    ops.add(x)\n",
    "a seed drawn": "import random\nfrom random import randint\n"
    + RIGHT.replace("        out = ", "        seed = randint(0, 9) + random.randint(0, 9)\n        out = "),
    "the module of a device's type": RIGHT
    + "\n\ndef on(device):\n    device = torch.device(device)\n    there = getattr(torch, device.type, None)\n"
    "    return there.device(device) if hasattr(there, 'device') else None\n",
    "Inductor's guard of a device": RIGHT.replace(
        "        out = ", "        with torch.cuda._DeviceGuard(x.device.index):\n            pass\n        out = "
    ),
    "libdevice": RIGHT.replace("import triton\n", "import triton\nfrom triton.language.extra import libdevice\n"),
    "attributes of self": RIGHT.replace("        out = ", "        self.calls = 1\n        out = "),
    "a function named like a word": RIGHT + "\n\ndef compile_time(x):\n    return x\n",
    "return after a loop": RIGHT
    + "\n\n@triton.jit\ndef helper(x):\n    for i in range(4):\n        x += i\n    return x\n",
    "attributes by name": RIGHT.replace(
        "        out = ",
        "        setattr(self, 'calls', 1)\n        for k in (1, 2):\n            setattr(self, f'w{k}', k)\n"
        "        assert getattr(self, f'w{1}') and getattr(x, 'shape')\n        out = ",
    ),
    "the name of a class": RIGHT.replace("        out = ", "        name = self.__class__.__name__\n        out = "),
    "a guarded import": RIGHT.replace(
        "import triton\n",
        "import triton\ntry:\n    from triton.tools.tensor_descriptor import TensorDescriptor\n"
        "except ImportError:\n    TensorDescriptor = None\n",
    ),
    "an own class with hooks of Python's": RIGHT
    + "\n\nclass Grid:\n    def __call__(self, meta):\n        return (1,)\n\n    def __getattr__(self, name):\n"
    "        return name\n",
    "a frozen dataclass": RIGHT.replace("import triton\n", "import triton\nfrom dataclasses import dataclass\n")
    + "\n\n@dataclass(frozen=True)\nclass Plan:\n    block: int\n\n    def __post_init__(self):\n"
    "        object.__setattr__(self, 'block', 2 * self.block)\n",
    "a formatted message": RIGHT.replace(
        "        out = ", "        assert x.dim() == 2, '{x.shape} {0}'.format(1, x=x)\n        out = "
    ),
    "standard library": "import itertools, enum, math, warnings\nfrom collections.abc import Callable\n"
    "from types import SimpleNamespace\nfrom typing import *\n" + RIGHT,
    "an allocator for descriptors": RIGHT.replace(
        "        out = ",
        "        triton.set_allocator(lambda size, align, stream: torch.empty(size, device='cuda'))\n        out = ",
    ),
    "jit as a call": RIGHT.replace("@triton.jit\n", "").replace(
        "class ModelNew", "softmax_kernel = triton.jit(softmax_kernel)\n\n\nclass ModelNew"
    ),
    "fans of a weight": RIGHT.replace(
        "        out = ", "        assert torch.nn.init._calculate_fan_in_and_fan_out(x)\n        out = "
    ),
    "attributes of a module by number": RIGHT.replace(
        "        out = ",
        "        layers = x\n        assert not hasattr(x, 'w1') or getattr(layers, f'w_{1}')\n        out = ",
    ),
    "a logger": "import logging\n" + RIGHT + "\n\nlogger = logging.getLogger(__name__)\nlogger.warning('slow')\n",
    "a lock": "import threading\nfrom threading import RLock\n"
    + RIGHT
    + "\n\nLOCKS = RLock(), threading.Lock()\nwith LOCKS[0]:\n    KNOWN = {}\n",
    "a clock": RIGHT.replace(
        "        out = ", "        import time as _time\n\n        began = _time.perf_counter()\n        out = "
    ),
    "attributes from keywords": RIGHT
    + "\n\nclass Plan:\n    def __init__(self, **sizes):\n        self.__dict__.update(sizes)\n",
    "einops": "from einops import rearrange\nfrom einops.layers.torch import Rearrange\n" + RIGHT,
    "test code": "import time\n" + RIGHT + "\n\ndef get_inputs():\n    return [torch.rand(2, 2)]\n\n\n"
    "def get_init_inputs():\n    return []\n\n\ndef test_it():\n    exec('1')\n\n\n"
    "if __name__ == '__main__':\n    started = time.time()\n    test_it()\n    print(ModelNew()(*get_inputs()))\n",
    "a relative import in a function": RIGHT
    + "\n\ndef debugged():\n    from .kernels import other\n    return other\n",
    "an assertion that does not wait": RIGHT.replace(
        "        out = ", "        torch._assert_async(x.sum() > -1)\n        out = "
    ),
    "functions in Triton's language from PyTorch's compiler": RIGHT.replace(
        "import triton\n",
        "import triton\nfrom torch._inductor.runtime import triton_helpers\n"
        "from torch._inductor.runtime.triton_helpers import libdevice, math as tl_math\n",
    )
    + "\n\n@triton.jit\ndef helper(x):\n"
    "    return tl_math.exp(triton_helpers.maximum(libdevice.tanh(x), triton_helpers.max2(x, 0)))\n",
    "inputs that may hold other tensors": "from torch.utils._python_dispatch import is_traceable_wrapper_subclass\n"
    + RIGHT.replace("        out = ", "        assert not is_traceable_wrapper_subclass(x)\n        out = "),
    "figures of the GPU for a model of its time": RIGHT.replace(
        "import triton\n", "import triton\nfrom triton.testing import get_dram_gbps, get_max_tensorcore_tflops\n"
    )
    + "\n\ndef seconds(flops, nbytes):\n"
    "    return max(flops / get_max_tensorcore_tflops(torch.float16, 10**6) / 1e12, nbytes / get_dram_gbps() / 1e9)\n",
    "JSON in text": "import json\n" + RIGHT + "\n\nCONFIGURATIONS = json.loads('[64, 128]')\n",
    "its own environment variable": "import os\n" + RIGHT + "\n\nQUICK = os.environ.get('NVTE_QUICK', '0') == '1'\n",
    "break outside of kernels": RIGHT + "\n\ndef plain():\n    for i in range(4):\n        break\n",
}


@pytest.mark.parametrize("name", HONEST)
def test_honest_code_passes(name: str) -> None:
    assert kinds(HONEST[name]) == []


IN_FORWARD = "        return out"
HELPERS = RIGHT.replace("import torch\n", "import torch\nfrom torch._inductor.runtime import triton_helpers\n")
BROKEN = {
    "exec": (RIGHT.replace(IN_FORWARD, "        exec('x = 1')\n        return out"), "forbidden_construct"),
    "open": (RIGHT.replace(IN_FORWARD, "        open('/etc/hosts')\n        return out"), "forbidden_construct"),
    "ctypes": ("import ctypes\n" + RIGHT, "forbidden_import"),
    "subprocess from": ("from subprocess import run\n" + RIGHT, "forbidden_import"),
    "relative": ("from . import reference\n" + RIGHT, "forbidden_import"),
    "aliased torch.compile": (
        RIGHT.replace("import torch\n", "import torch\nfrom torch import compile as c\n"),
        "forbidden_construct",
    ),
    "torch under another name": (
        RIGHT.replace("import torch\n", "import torch\nimport torch as t\n").replace(
            IN_FORWARD, "        return t.compile(t.softmax)(x, 1)"
        ),
        "forbidden_construct",
    ),
    "the compiler's own decorators": (
        RIGHT.replace("import torch\n", "import torch\nfrom torch._inductor.runtime import triton_heuristics\n"),
        "forbidden_construct",
    ),
    "the compiler's helpers alone by name": (HELPERS + "\n\nnames = triton_helpers.warnings\n", "forbidden_construct"),
    "the compiler's helpers handed on": (
        HELPERS + "\n\nprint([triton_helpers.math, 1][:1])\nf = [triton_helpers]\n"
        "\ndef g(x):\n    return triton_helpers.math\n",
        "forbidden_construct",
    ),
    "a helper by a computed name": (
        HELPERS + "\n\ngetattr(triton_helpers, 'set_driver' + '_to_cpu')()\n",
        "forbidden_construct",
    ),
    "a helper replaced": (HELPERS + "\n\ntriton_helpers.maximum = None\n", "forbidden_construct"),
    "a benchmark beside the GPU's figures": (
        RIGHT.replace("import triton\n", "import triton\nimport triton.testing\nfrom triton import testing\n")
        + "\n\nseconds = testing.do_bench\n",
        "forbidden_construct",
    ),
    "another part of a private module": (
        "from torch.utils._python_dispatch import _disable_current_modes\n" + RIGHT,
        "forbidden_construct",
    ),
    "inline extension": (
        RIGHT.replace("import torch\n", "import torch\nfrom torch.utils.cpp_extension import load_inline\n"),
        "forbidden_construct",
    ),
    "patches the library": (
        RIGHT.replace(IN_FORWARD, "        torch.softmax = None\n        return out"),
        "forbidden_construct",
    ),
    "patches through an alias": (
        RIGHT + "\n\nfor kind in (torch.cuda.Event,):\n    hand = kind\n    hand.record = None\n",
        "forbidden_construct",
    ),
    "patches by setattr": (RIGHT + "\n\nsetattr(torch, 'softmax', None)\n", "forbidden_construct"),
    "patches a class by instance": (
        RIGHT.replace(IN_FORWARD, "        type(x).__add__ = None\n        return out"),
        "forbidden_construct",
    ),
    "a computed name": (
        RIGHT.replace(IN_FORWARD, "        getattr(torch, 'ma' + 'tmul')\n        return out"),
        "forbidden_construct",
    ),
    "a computed name bound before": (
        RIGHT.replace(IN_FORWARD, "        name = 'compile'\n        getattr(torch, name)\n        return out"),
        "forbidden_construct",
    ),
    "getattr handed on": (
        "from functools import reduce\n" + RIGHT + "\n\nf = reduce(getattr, ['os'], torch)\n",
        "forbidden_construct",
    ),
    "the library as an argument": (
        RIGHT + "\n\ndef change(box):\n    box.allclose = None\n\nchange(torch)\n",
        "forbidden_construct",
    ),
    "a library within an argument": (
        RIGHT
        + "\n\ndef change(boxes):\n    boxes['t'].allclose = None\n\nchange(boxes={'t': (1, torch.nn.functional)})\n",
        "forbidden_construct",
    ),
    "the library as a result": (
        RIGHT + "\n\ndef box():\n    return torch.backends.cudnn\n\nbox().enabled = None\n",
        "forbidden_construct",
    ),
    "a lambda for the library": (RIGHT + "\n\nbox = lambda: triton\nbox().cdiv = None\n", "forbidden_construct"),
    "state told by itself": (
        RIGHT.replace("    def forward", "    def state_dict(self):\n        return {}\n\n    def forward"),
        "forbidden_construct",
    ),
    "a library's own import": ("from torch import os\n" + RIGHT, "forbidden_construct"),
    "a module of a module": ("import enum\n" + RIGHT + "\n\nb = enum.bltns\n", "forbidden_construct"),
    "an attribute pattern": (
        RIGHT.replace(
            IN_FORWARD, "        match torch:\n            case object(os=o):\n                pass\n        return out"
        ),
        "forbidden_construct",
    ),
    "a format string": (
        RIGHT.replace(IN_FORWARD, "        '{0.__class__}'.format(x)\n        return out"),
        "forbidden_construct",
    ),
    "subclass of an aliased tensor": (
        RIGHT + "\n\nBase = torch.Tensor\n\nclass Lazy(Base):\n    x = 1\n",
        "forbidden_construct",
    ),
    "work in a hook": (
        RIGHT.replace(IN_FORWARD, "        self.register_forward_hook(print)\n        return out"),
        "forbidden_construct",
    ),
    "a call that is not forward": (
        RIGHT.replace("    def forward", "    def __call__(self, x):\n        return x\n\n    def forward"),
        "forbidden_construct",
    ),
    "a builtin unpacked in the module": (RIGHT + "\n\n(eval,) = list([eval])\neval('1')\n", "forbidden_construct"),
    "a builtin unpacked as a global": (
        RIGHT + "\n\ndef f():\n    global eval\n    (eval,) = [eval][:]\n    eval('1')\n",
        "forbidden_construct",
    ),
    "a compiler's other parts": (RIGHT + "\n\ntorch.compiler.reset()\n", "forbidden_construct"),
    "a generator's insides": ("import random\n" + RIGHT + "\n\nrandom._os.getcwd()\n", "forbidden_construct"),
    "a process group": (RIGHT + "\n\ntorch.distributed.init_process_group()\n", "forbidden_construct"),
    "a mesh of devices": ("from torch.distributed.tensor import init_device_mesh\n" + RIGHT, "forbidden_construct"),
    "another part of torch.distributed": ("import torch.distributed.rpc\n" + RIGHT, "forbidden_construct"),
    "a type of something else": (
        RIGHT.replace(IN_FORWARD, "        getattr(torch, x.type)\n        return out"),
        "forbidden_construct",
    ),
    "a device that is bound otherwise, too": (
        RIGHT
        + "\n\ndef f(things):\n    d = torch.device('cuda')\n    for d in things:\n        getattr(torch, d.type)\n",
        "forbidden_construct",
    ),
    "a device that comes later": (
        RIGHT + "\n\ndef f(d):\n    getattr(torch, d.type)\n    d = torch.device('cuda')\n",
        "forbidden_construct",
    ),
    "switches": (RIGHT + "\n\ntorch.backends.cuda.matmul.allow_tf32 = True\n", "forbidden_construct"),
    "a private part": (RIGHT + "\n\nlinear = torch._C._nn.linear\n", "forbidden_construct"),
    "a sub-module": ("import torch.utils.cpp_extension as e\n" + RIGHT, "forbidden_construct"),
    "continue in a while of a kernel": (
        RIGHT.replace("    columns =", "    while row > 0:\n        row -= 1\n        continue\n    columns ="),
        "unsupported_in_kernel",
    ),
    "return in a loop of a kernel": (
        RIGHT.replace("    columns =", "    for i in range(2):\n        if i:\n            return\n    columns ="),
        "unsupported_in_kernel",
    ),
    "another encoding": ("# coding: unicode_escape\n# \\x0aimport os\n" + RIGHT, "forbidden_construct"),
    "annotations evaluated": (RIGHT + "\n\nimport typing\n\ntyping.get_type_hints(ModelNew)\n", "forbidden_construct"),
    "attributes copied by name": (
        RIGHT + "\n\nimport functools\n\nfunctools.update_wrapper(torch, ModelNew, assigned=('softmax',))\n",
        "forbidden_construct",
    ),
    "attributes copied by a value": (
        RIGHT + "\n\nimport functools\n\ncopied = functools.update_wrapper\n",
        "forbidden_construct",
    ),
    "a class of another module": (
        RIGHT + "\n\nclass Patch:\n    __module__ = 'torch.nn.functional'\n",
        "forbidden_construct",
    ),
    "a module's names converted": (
        RIGHT + "\n\nimport enum\n\nclass E(enum.IntEnum):\n    A = 1\n\nE._convert_('F', 'sys', bool)\n",
        "forbidden_construct",
    ),
    "NVIDIA's management library": (RIGHT + "\n\nimport pynvml\n", "forbidden_import"),
    "NVIDIA's management library of PyTorch": (
        RIGHT + "\n\ntorch.cuda.pynvml.nvmlInit()\n",
        "forbidden_construct",
    ),
    "NVIDIA's management library from PyTorch": (
        RIGHT + "\n\nfrom torch.cuda import pynvml\n",
        "forbidden_construct",
    ),
    "memory at an address": (
        RIGHT + "\n\nclass At:\n    __array_interface__ = {'data': (4096, False)}\n",
        "forbidden_construct",
    ),
    "a test function that is called": (RIGHT + "\n\ndef test_it():\n    assert True\n\n\ntest_it()\n", "test_code"),
    "a main block with an else": (
        RIGHT + "\n\nif __name__ == '__main__':\n    pass\nelse:\n    open('x')\n",
        "test_code",
    ),
    "a refused import that other code needs": (
        "import ctypes\n" + RIGHT + "\n\nSIZE = ctypes.c_int\n\n\ndef get_inputs():\n    return [ctypes]\n",
        "forbidden_import",
    ),
    "a computed name of a library with a public beginning": (
        RIGHT.replace(IN_FORWARD, "        getattr(torch, f'ma{x.dim()}')\n        return out"),
        "forbidden_construct",
    ),
    "a computed name that may be a refused one": (
        RIGHT.replace(IN_FORWARD, "        getattr(x, f'comp{x.dim()}')\n        return out"),
        "forbidden_construct",
    ),
    "a computed private name": (
        RIGHT.replace(IN_FORWARD, "        getattr(x, f'_{x.dim()}')\n        return out"),
        "forbidden_construct",
    ),
    "a log file": (
        "import logging\n" + RIGHT + "\n\nlogging.getLogger('a').addHandler(logging.FileHandler('x'))\n",
        "forbidden_construct",
    ),
    "logging handed on": (
        "import logging\n" + RIGHT + "\n\ndef f(m):\n    m.FileHandler('x')\n\n\nf(logging)\n",
        "forbidden_construct",
    ),
    "a thread": (
        "import threading\n" + RIGHT + "\n\nthreading.Thread(target=print).start()\n",
        "forbidden_construct",
    ),
    "a pause": ("import time\n" + RIGHT + "\n\ntime.sleep(1)\n", "forbidden_construct"),
    **{
        f"another object as self, {n}": (
            f"{RIGHT}\n\nclass Plan:\n    def {name}(self, **sizes):\n{body}        self.__dict__.update(sizes)\n\n\n"
            f"{end}\n",
            "forbidden_construct",
        )
        for n, (name, body, end) in enumerate(
            [
                ("__init__", "", "Plan.__init__(torch, relu=None)"),
                ("__init__", "", "MAKE = Plan.__init__\nMAKE(torch, relu=None)"),
                ("__init__", "        self = torch\n", "Plan(relu=None)"),
                ("__init__", "        import torch as self\n", "Plan(relu=None)"),
                ("set", "", "Plan.set(torch, relu=None)"),
            ]
        )
    },
    "a library's attributes": (RIGHT + "\n\ntorch.__dict__.update(relu=None)\n", "forbidden_construct"),
    "attributes read by name": (
        RIGHT + "\n\nclass A:\n    def f(self, n):\n        return self.__dict__[n]\n",
        "forbidden_construct",
    ),
    "another module's import": ("from logging import os\n" + RIGHT, "forbidden_construct"),
    "a handler of logging": ("import logging.handlers\n" + RIGHT, "forbidden_construct"),
    "einops' insides": ("from einops import _backends\n" + RIGHT, "forbidden_construct"),
    "the whole environment": ("import os\n" + RIGHT + "\n\nALL = dict(os.environ)\n", "forbidden_construct"),
    "the environment changed": ("import os\n" + RIGHT + "\n\nos.environ['A'] = '1'\n", "forbidden_construct"),
    "a tool's variable": (
        "import os\n" + RIGHT + "\n\nWATCHED = os.getenv('PYTORCH_NO_CUDA_MEMORY_CACHING')\n",
        "forbidden_construct",
    ),
    "any variable": ("import os\n" + RIGHT + "\n\nn = 'A'\nX = os.getenv(n)\n", "forbidden_construct"),
    "a reader of variables": ("import os\n" + RIGHT + "\n\nREAD = os.environ.get\n", "forbidden_construct"),
    "the system": ("import os\n" + RIGHT + "\n\nos.system('ls')\n", "forbidden_construct"),
    "the system, perhaps": (
        RIGHT + "\n\ntry:\n    import ctypes\nexcept ImportError:\n    pass\n",
        "forbidden_import",
    ),
    "a tracer": (RIGHT + "\n\nTRACER = torch.fx\n", "forbidden_construct"),
    "another package": ("import vllm\n" + RIGHT, "forbidden_import"),
    "its own name": (RIGHT + "\n\nWHO = __name__\n", "forbidden_construct"),
    "no forward": (RIGHT.replace("def forward", "def apply"), "missing_entry_point"),
    "nothing": ("", "no_code"),
    "null byte": ("x = 1\0", "syntax_error"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_contracts_are_named(name: str) -> None:
    source, kind = BROKEN[name]
    assert kinds(source)[0] == kind


def test_a_missing_answer_keeps_its_reason() -> None:
    made = Candidate(
        source="", author="m", stage="algorithmic_structure", mode="seed", problem="the answer had no code"
    )
    assert check(made)[0].message == "the answer had no code"


def test_test_code_is_cut_out_line_by_line() -> None:
    """What is judged is what was checked: nothing of it is left, and every line keeps its number."""
    source, left_out = without_test_code(HONEST["test code"])
    assert left_out == (
        "get_inputs()",
        "get_init_inputs()",
        "test_it()",
        'the block `if __name__ == "__main__"`',
        "`import time`",
    )
    assert "exec" not in source and "time" not in source
    assert source.splitlines().index("class ModelNew(nn.Module):") == HONEST["test code"].splitlines().index(
        "class ModelNew(nn.Module):"
    )
    assert without_test_code(source) == (source, ())


def test_an_optional_import_of_another_package_fails_where_it_is_reached() -> None:
    told = judged_text(
        RIGHT
        + """

def fast(x):
    try:
        from apex.normalization import (
            fused,
            plain,
        )
    except ImportError:
        return None
    import os.path
    return fused
"""
    )
    assert told.imports == ("from apex.normalization import fused, plain",)
    assert "`from apex.normalization import fused, plain` fails: no such package is there" in told.statement
    assert "import os.path" in told.source and "apex.normalization import" not in told.source
    assert len(told.source.splitlines()) == len(RIGHT.splitlines()) + 12
    made: dict[str, object] = {}
    exec(told.source[told.source.index("def fast") :], made)
    assert made["fast"](1) is None  # type: ignore[operator]


@pytest.mark.parametrize(
    "lacks", ["'all_gather' not in dir(torch.distributed)", "not hasattr(torch.distributed, 'all_gather')"]
)
def test_what_gives_an_older_library_a_name_is_left_out(lacks: str) -> None:
    source = f"{RIGHT}\nif {lacks}:\n    torch.distributed.all_gather = torch.distributed._all_gather_base\n"
    told = judged_text(source)
    assert "all_gather" not in told.source and len(told.source.splitlines()) == len(source.splitlines())
    assert told.backports == (lacks,) and f"older library: `if {lacks}: …`" in told.statement
    assert not kinds(source)


@pytest.mark.parametrize(
    "condition",
    ["'all_gather' in dir(torch.distributed)", "not hasattr(ModelNew, 'all_gather')", "not hasattr(torch, name)"],
)
def test_other_conditions_stay_and_are_judged(condition: str) -> None:
    source = f"{RIGHT}\nname = 'a'\nif {condition}:\n    torch.distributed.all_gather = torch.distributed._base\n"
    assert judged_text(source).source == source and kinds(source)


def test_an_import_beside_another_statement_stays() -> None:
    source = "def f():\n    import apex; x = 1\n    return apex, x\n"
    assert judged_text(source).source == source


def test_what_only_test_code_needs_goes_along() -> None:
    """Helpers of tests with what they import; not a function that the module needs, too."""
    source, left_out = without_test_code(
        "import sys\n" + RIGHT + "\n\ndef size(x):\n    return x.shape[0]\n\n\nLEAST = size(torch.empty(2))\n\n\n"
        "def bound(n):\n    return n and bound(n - 1)\n\n\n"
        "def run_tests():\n    sys.exit(size(torch.ones(bound(2))))\n\n\nif __name__ == '__main__':\n    run_tests()\n"
    )
    assert left_out == ('the block `if __name__ == "__main__"`', "run_tests()", "bound()", "`import sys`")
    assert "def size" in source and kinds(source) == []


def test_test_code_on_a_line_with_other_code_stays() -> None:
    source = "def get_inputs(): pass\nx = 1; import os\n\nif __name__ == '__main__': os\n"
    assert without_test_code(source)[0] == source


@pytest.mark.parametrize("line", ["a = a", "self.a = self.a", "getattr(a, a)\na = a", "a = a.b\na.c()"])
def test_a_name_that_is_bound_again_and_again_is_followed_in_bounded_time(line: str) -> None:
    start = time.process_time()
    kinds(RIGHT + f"\n{line}" * 300)
    assert time.process_time() - start < 10, "300 to the power of 8 is for ever"

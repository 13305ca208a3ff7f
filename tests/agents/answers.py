"""Answers as models really send them: one good module, and what becomes of it on the way."""

import json

MODULE = """import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)  # one block per program
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        copy_kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
        return y
"""
IMPORTS, BODY = MODULE.split("\n\n\n", 1)
KERNELS = MODULE[: MODULE.index("\n\n\nclass")]
CLASS = MODULE[MODULE.index("class ModelNew") :]
TEST_CODE = """

def get_inputs():
    return [torch.randn(4)]


def get_init_inputs():
    return []


def test_model():
    assert ModelNew()(torch.randn(4)) is not None


if __name__ == "__main__":
    test_model()
"""


def fenced(source: str, language: str = "python") -> str:
    return f"```{language}\n{source.rstrip()}\n```"


STUB = "class ModelNew(nn.Module):\n    def forward(self, x):\n        ...  # as above\n"
EMPTY = "class ModelNew(nn.Module):\n    pass\n"
DOCUMENTED = f'"""Copies.\n\n```\ny = ModelNew()(x)\n```\n"""\n{MODULE}'
STATEFUL = MODULE.replace(
    "    def forward", "    def __init__(self):\n        super().__init__()\n        self.gain = 2\n\n    def forward"
).replace("return y", "return self.gain * y")
"""A module whose forward relies on its `__init__`."""
STORE = "    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)"
TWICE = "    tl.store(y_ptr + offsets, 2 * tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)"
KERNEL = MODULE[MODULE.index("@triton.jit") : MODULE.index("\n\n\nclass")]
FORWARD = MODULE[MODULE.index("    def forward") :]


MENDED = {
    "prose around the fence": f"Sure! Here it is.\n\n{fenced(MODULE)}\n\nIt copies `x`.",
    "no language": fenced(MODULE, ""),
    "tildes": f"~~~python\n{MODULE}~~~",
    "indented fence": "1. The module:\n" + "\n".join(f"   {row}" for row in fenced(MODULE).splitlines()),
    "several fences, a draft first": (
        f"First:\n{fenced('x = 1', 'python')}\nSecond:\n{fenced(MODULE)}\nRun:\n{fenced('pip install triton', 'bash')}"
    ),
    "usage after the module": f"{fenced(MODULE)}\nUse it:\n{fenced('model = ModelNew()')}",
    "two versions, the last one counts": f"{fenced(MODULE.replace('256', '128'))}\nBetter:\n{fenced(MODULE)}",
    "kernels and class in two fences": f"Kernels:\n{fenced(KERNELS)}\nModule:\n{fenced(CLASS)}",
    "no fence": f"Here is the module.\n\n{MODULE}\nThis copies x; it's fast.",
    "forgotten closing fence": f"```python\n{MODULE}",
    "thinking aloud": f"<think>```python\nclass ModelNew: no\n```</think>\n{fenced(MODULE)}",
    "thinking without its opening tag": f"Let me see ... </think>{fenced(MODULE)}",
    "test code": fenced(MODULE + TEST_CODE),
    "model run at top level": fenced(MODULE + "\nmodel = ModelNew()\ny = model(torch.randn(4))\nprint(y)\n"),
    "imports missing": fenced(BODY),
    "a stub after the module": f"{fenced(MODULE)}\nThe interface stays:\n{fenced(STUB)}",
    "an empty class after the module": f"{fenced(MODULE)}\nUse:\n{fenced(EMPTY)}",
    "Windows line ends": fenced(MODULE).replace("\n", "\r\n"),
}
"""Answers from which the module must come out as if they were perfect."""

HOPELESS = {
    "empty": ("", "empty"),
    "blank": ("  \n ", "empty"),
    "a refusal": ("I cannot write this kernel.", "no code"),
    "JSON instead of code": ('{"critical_issue": "none"}', "no code"),
    "no ModelNew": (fenced(MODULE.replace("ModelNew", "Model")), "no `class ModelNew`"),
    "thinking that never ends": ("<think> and then", "cut off"),
}
"""Answers from which no module can come, and what the reason says."""

ANALYSIS = {
    "worth_optimizing": True,
    "bottleneck": "DRAM bandwidth, 3 reads per row",
    "root_cause": "softmax reads its row three times",
    "category": "operator_fusion",
    "plan": "Keep the row in registers.",
    "expected": {"metric": "dram_bytes", "direction": "down"},
    "principles": ["one_read_per_row"],
}
DIAGNOSIS = {"critical_issue": "line 9: mask is missing", "modification_plan": "mask the load"}

PARTS = {
    "one kernel": fenced(KERNEL.replace(STORE, TWICE)),
    "one kernel, whatever else is elided": fenced(f"{KERNEL.replace(STORE, TWICE)}\n\n{STUB}"),
    "one kernel after a quotation": f"You have:\n{fenced(MODULE)}\nNew:\n{fenced(KERNEL.replace(STORE, TWICE))}",
    "the class alone": fenced(CLASS.replace("return", "return 2 *")),
    "one method": fenced(FORWARD.replace("return", "return 2 *").replace("    def", "def").replace("        ", "    ")),
    "a kernel elided": fenced(
        MODULE.replace(KERNEL, KERNEL.split("\n    ")[0] + "\n    ...  # unchanged").replace("return", "return 2 *")
    ),
    "a new helper": fenced(f"@triton.jit\ndef twice(v):\n    return v + v\n\n\n{KERNEL.replace(STORE, TWICE)}"),
    "a diff": f"```diff\n--- a/module.py\n+++ b/module.py\n@@ -8,3 +8,3 @@\n-{STORE}\n+{TWICE}\n```",
    "a diff with other numbers": f"Change one line:\n```\n@@ -90,2 +90,2 @@\n-{STORE}\n+{TWICE}\n \n```",
}
"""Answers that change `MODULE` and do not hold it; the change is a factor of two."""
AMBIGUOUS = {
    "two versions": (f"{fenced(KERNEL)}\nor\n{fenced(KERNEL.replace(STORE, TWICE))}", "two versions of copy_kernel"),
    "an unknown function": (fenced("def other(x):\n    return x"), "nothing that the module has by that name"),
    "a method of no class": (fenced("def backward(self, x):\n    return x\n"), "not plain where backward belongs"),
    "a diff of something else": (
        "```diff\n@@ -1 +1 @@\n-import os\n+import sys\n```",
        "hunk 1 of the diff does not fit",
    ),
    "a diff of two places": ("```diff\n@@ -40 +40 @@\n-\n+x = 1\n```", "fits at several places"),
}
"""Changes that cannot be merged, and what the reason says."""

WRITTEN_JSON = {
    "plain": json.dumps(DIAGNOSIS),
    "fenced": fenced(json.dumps(DIAGNOSIS, indent=2) + "\n", "json"),
    "prose": f"The cause is clear.\n{json.dumps(DIAGNOSIS)}\nGood luck {{and}} bye!",
    "comments": '{\n  // the cause\n  "critical_issue": "line 9: mask is missing", # here\n'
    '  /* and */ "modification_plan": "mask the load"\n}',
    "trailing comma": '{"critical_issue": "line 9: mask is missing", "modification_plan": "mask the load",}',
    "a key with a space": '{"critical_issue": "line 9: mask is missing", "modification plan": "mask the load"}',
    "single quotes": str(DIAGNOSIS),
    "capitals": '{"Critical Issue": "line 9: mask is missing", "Modification-Plan": "mask the load"}',
    "thinking": '<think>{"critical_issue": "no", "modification_plan": "no"}</think>' + json.dumps(DIAGNOSIS),
    "an example first": '{"critical_issue": "..."}\nAnswer: ' + json.dumps(DIAGNOSIS),
    "an object around it": json.dumps({"diagnosis": DIAGNOSIS, "confidence": {"critical_issue": 0.9}}),
    "no quotes, no comma": "{critical_issue: 'line 9: mask is missing'\n modification_plan: 'mask the load'}",
    "line break in a string": '{"critical_issue": "line 9:\n mask is missing", "modification_plan": "mask the load"}',
}

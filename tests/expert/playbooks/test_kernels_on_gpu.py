"""The heavy playbooks on a real GPU: every structure against PyTorch in fp64, and a small table of times.

Run with `-s` to see the table. Times are medians of `triton.testing.do_bench`, PyTorch at the same precision; they are
no verdict (no interleaving, no compiled baseline): `egg-graph evaluate` gives that.
"""

import copy
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tests.expert.playbooks.cases import CASES, POLICY_DTYPE, candidates, write_candidate  # noqa: E402

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU on this machine"),
]

WORSE_THAN_TORCH = 1.5
"""Largest error allowed, as a multiple of PyTorch's own at the same precision, both against fp64."""
FLOOR = {"ieee": 2e-6, "tf32": 5e-6, "bf16": 1e-4, "fp16": 1e-5}
"""Relative error that is always allowed: scans have no product and PyTorch's own error is next to nothing."""
ROUNDED_TO_TF32 = 6e-4
"""Error allowed where PyTorch's own says nothing about TF32: its attention splits fp32 operands into three TF32
products, and cuDNN computes small convolutions in fp32."""
EXACT_IN_TORCH = ("attention", "convolution", "phases", "recurrence")
"""Shapes of `GPU_SHAPES` at which that is so."""
GPU_SHAPES: dict[str, tuple[dict[str, int], ...]] = {
    "gemm": (
        {"Z": 4, "B": 2, "T": 301, "M": 517, "K": 1030, "N": 771},
        {"Z": 4, "T": 256, "M": 512, "K": 1024, "N": 2048},
    ),
    "packed_weights": (
        {"B": 2, "M": 37, "K": 1056, "N": 771, "G": 32},
        {"B": 2, "M": 32, "K": 2048, "N": 2048, "G": 128},
    ),
    "long_k": ({"M": 67, "K": 65000, "N": 129}, {"M": 128, "K": 65536, "N": 128}),
    "attention": ({"B": 2, "H": 4, "T": 1001}, {"B": 2, "H": 8, "T": 1024}),
    "cumsum_of_columns": ({"B": 3, "N": 1001, "I": 70}, {"B": 16, "N": 4096, "I": 512}),
    "exclusive_sum_of_columns": ({"B": 3, "N": 1001, "I": 70}, {"B": 16, "N": 4096, "I": 512}),
    "convolution": ({"B": 3, "N": 72, "H": 21}, {"B": 4, "N": 128, "H": 32}),
    "phases": ({"B": 3, "H": 21}, {"B": 4}),  # a tile holds the channels that it was written for
    "recurrence": ({"B": 3, "T": 37, "I": 50, "H": 200}, {"B": 19, "T": 64, "I": 128}, {"T": 128}),
    "scan": ({"B": 130, "N": 20011}, {"B": 256, "N": 32768}),
}
TF32 = ("tf32/pointer", "tf32/tma", "tf32/tma_registers")
BF16 = ("bf16/pointer", "bf16/tma")
SPEED = [
    ("linear_gelu", {"M": 4096, "K": 4096, "N": 4096}, (*TF32, *BF16)),
    ("linear_gelu", {"M": 1024, "K": 8192, "N": 8192}, (*TF32, *BF16)),
    ("row_major_b", {"M": 4096, "K": 4096, "N": 4096}, (*TF32, "bf16/tma")),
    ("causal", {"B": 4, "H": 16, "T": 2048, "D": 64}, (*TF32[:2], *BF16)),
    ("wide_head", {"B": 4, "H": 16, "T": 2048}, (*TF32[:2], *BF16)),
    ("cumsum", {"B": 8192, "N": 32768}, ("tf32/", "tf32/rows")),
    ("masked_cumsum", {"B": 8192, "N": 32768}, ("tf32/",)),
    ("long_k", {"M": 128, "K": 262144, "N": 128}, ("tf32/",)),
]


@pytest.fixture(autouse=True)
def turn(request: pytest.FixtureRequest) -> Iterator[None]:
    """The GPU: beside others to compare answers, alone to time."""
    from egg_graph.evaluator.device.access import access_to

    access = access_to("gpu")
    with access.measuring() if "times" in request.node.name else access.computing():
        yield
    torch.cuda.empty_cache()


@pytest.fixture(scope="module")
def graphs() -> dict[tuple[str, str], object]:
    """What was captured, one graph for all variants of a precision."""
    return {}


@pytest.fixture
def tf32_as_declared() -> Iterator[None]:
    """PyTorch's TF32 switches, put back afterwards."""
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    yield
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = loaded
    spec.loader.exec_module(loaded)
    return loaded


def models(name: str, kind: str, shape: dict[str, int], path: Path) -> tuple[Any, Any, list[Any]]:
    """Reference, candidate and inputs on the GPU, cast as the policy says."""
    precision = kind.split("/")[0]
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
    namespace: dict[str, Any] = {"__name__": "reference"}
    exec(compile(CASES[name].reference, name, "exec"), namespace)
    namespace.update({k: v for k, v in shape.items() if k in namespace})
    torch.manual_seed(20261121)
    with torch.device("cuda"):
        reference = namespace["Model"](*namespace["get_init_inputs"]())
        candidate = load(path).ModelNew(*namespace["get_init_inputs"]())
        inputs = namespace["get_inputs"]()
    candidate.load_state_dict(reference.state_dict(), strict=True)
    if precision in POLICY_DTYPE:
        dtype = getattr(torch, POLICY_DTYPE[precision])
        reference, candidate = reference.to(dtype), candidate.to(dtype)
        inputs = [x.to(dtype) if x.is_floating_point() else x for x in inputs]
    return reference, candidate, inputs


def shapes_of(name: str) -> tuple[dict[str, int], ...]:
    if name in GPU_SHAPES:
        return GPU_SHAPES[name]
    if name.endswith("_phases"):
        return GPU_SHAPES["phases"]
    for kind in ("convolution", "recurrence"):
        if name.startswith(kind):
            return GPU_SHAPES[kind]
    if "D = " in CASES[name].reference:
        return GPU_SHAPES["attention"]
    return GPU_SHAPES["scan" if "cum" in CASES[name].reference else "gemm"]


@pytest.mark.usefixtures("tf32_as_declared")
@pytest.mark.parametrize(("name", "kind"), candidates())
def test_kernel_is_as_exact_as_torch(
    name: str, kind: str, tmp_path: Path, graphs: dict[tuple[str, str], object]
) -> None:
    path = write_candidate(name, kind, tmp_path, graphs)
    for shape in shapes_of(name):
        reference, candidate, inputs = models(name, kind, shape, path)
        with torch.no_grad():
            wide = [x.double() if x.is_floating_point() else x for x in inputs]
            expected = copy.deepcopy(reference).double()(*wide).double()
            mine, theirs = candidate(*inputs).double(), reference(*inputs).double()
        assert mine.shape == expected.shape
        size = expected.norm()
        error, budget = float((mine - expected).norm() / size), float((theirs - expected).norm() / size)
        allowed = max(WORSE_THAN_TORCH * budget, FLOOR[kind.split("/")[0]])
        if kind.startswith("tf32") and any(shapes_of(name) == GPU_SHAPES[group] for group in EXACT_IN_TORCH):
            allowed = ROUNDED_TO_TF32
        assert error <= allowed, f"{shape}: error {error:.2e}, PyTorch {budget:.2e}, allowed {allowed:.2e}"


ATTENTION = [(name, kind) for name, kind in candidates() if "D = " in CASES[name].reference]


@pytest.mark.usefixtures("tf32_as_declared")
@pytest.mark.parametrize(("name", "kind"), ATTENTION)
def test_large_scores_give_finite_weights(
    name: str, kind: str, tmp_path: Path, graphs: dict[tuple[str, str], object]
) -> None:
    """exp2(scale * x - largest) as one fused multiply-add leaves thousands where the largest score should leave 0."""
    path = write_candidate(name, kind, tmp_path, graphs)
    _, candidate, inputs = models(name, kind, shapes_of(name)[0], path)
    with torch.no_grad():
        assert candidate(*[3e4 * x if x.is_floating_point() else x for x in inputs]).isfinite().all()


@pytest.mark.parametrize("kind", CASES["scaled_softmax"].kinds)
def test_large_products_give_finite_weights(kind: str, tmp_path: Path, graphs: dict[tuple[str, str], object]) -> None:
    path = write_candidate("scaled_softmax", kind, tmp_path, graphs)
    _, candidate, (x,) = models("scaled_softmax", kind, {"R": 64, "N": 1237}, path)
    with torch.no_grad():
        assert candidate(1e11 * x).isfinite().all()


def milliseconds(model: Any, inputs: list[Any]) -> float:
    from triton.testing import do_bench

    with torch.no_grad():
        return float(do_bench(lambda: model(*inputs), warmup=10, rep=60, return_mode="median"))


@pytest.mark.usefixtures("tf32_as_declared")
def test_times_beside_torch(tmp_path: Path, graphs: dict[tuple[str, str], object], record_property: Any) -> None:
    print(f"\n{'case':<15}{'kind':<20}{'kernel ms':>10}{'torch ms':>10}{'ratio':>7}  shape")
    failed = []
    for name, shape, kinds in SPEED:
        label = " ".join(f"{size}={value}" for size, value in shape.items())
        for kind in kinds:
            reference, candidate, inputs = models(name, kind, shape, write_candidate(name, kind, tmp_path, graphs))
            try:
                mine, theirs = milliseconds(candidate, inputs), milliseconds(reference, inputs)
            except Exception as error:  # noqa: BLE001 - one kernel that fails must not hide the others' times
                failed.append(f"{name} {kind} {label}: {type(error).__name__}: {str(error)[:120]}")
                print(failed[-1])
                continue
            record_property(f"{name}/{kind}/{label}", f"{mine:.4f} ms, torch {theirs:.4f} ms")
            print(f"{name:<15}{kind:<20}{mine:>10.4f}{theirs:>10.4f}{theirs / mine:>7.2f}  {label}")
    assert not failed, failed

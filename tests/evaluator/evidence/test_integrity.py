"""What a witnessed forward amounts to: verdicts on its launches, operators and silence."""

from unittest import mock

import pytest
import torch

from egg_graph.evaluator.evidence.integrity import (
    judge_integrity,
    judge_makers,
    judge_silence,
    judge_watch,
)
from egg_graph.evaluator.evidence.traffic import Traffic, judge_read_back
from egg_graph.evaluator.interpreter.library_calls import LibraryRecorder
from egg_graph.evaluator.wire.operators import computing, operator_name
from egg_graph.evaluator.worker.launches import ForwardRecord, OperatorRecorder, count_moved_to_host
from egg_graph.schema import Finding, Hardware, Integrity, KernelTask

FREE = (
    "aten.empty.memory_format",
    "aten.t.default",
    "aten.split.Tensor",
    "aten._to_copy.default",
    "aten.zeros.default",
)


def task(h200: Hardware, *, triton_only: bool = False) -> KernelTask:
    return KernelTask(name="t", reference="", target=h200, triton_only=triton_only)


def seen(*operators: str, kernels: tuple[str, ...] = ("k",), **more: object) -> dict[str, object]:
    return {"launches": [{"kernel": name} for name in kernels], "operators": operators, **more}


def kinds(findings: list[Finding]) -> list[str]:
    return [finding.kind for finding in findings]


def test_views_allocations_and_copies_are_free() -> None:
    record = ForwardRecord()
    names = record.operators
    x = torch.randn(4, 6)
    with torch.no_grad(), OperatorRecorder(record):
        x.t().contiguous().view(-1)[None].expand(3, -1)[:, ::2]
        x.permute(1, 0).flatten().unsqueeze(0).squeeze().detach().chunk(2)
        torch.empty_like(x).copy_(x).to(torch.bfloat16).float().as_strided((2,), (1,)).unbind()
        torch.zeros(3).new_empty(2), x.unfold(0, 2, 1).diagonal(dim1=0, dim2=1), x[0, 0].item(), torch.cat([x, x])
    assert len(set(names)) > 15
    assert computing(names) == ()
    assert computing((*names, "aten.mm.default", "aten.add_.Tensor", "mine.softmax.default")) == (
        *("aten.mm.default", "aten.add_.Tensor", "mine.softmax.default"),
    )
    assert operator_name("aten.mm.default") == "mm"
    assert operator_name("mine.softmax.default") == "mine.softmax"


def test_an_operator_of_the_candidates_own_is_looked_into() -> None:
    library = torch.library.Library("witness_test", "DEF")
    library.define("product(Tensor x) -> Tensor")
    library.impl("product", lambda x: x @ x.t(), "CompositeExplicitAutograd")
    record = ForwardRecord()
    with torch.no_grad(), OperatorRecorder(record):
        torch.ops.witness_test.product(torch.ones(2, 3))
    assert any("mm" in name or "matmul" in name for name in record.operators)
    assert not any("witness_test" in name for name in record.operators)


def test_what_goes_to_the_host_is_counted() -> None:
    on_host = torch.zeros(3)
    gpu = mock.create_autospec(torch.Tensor, instance=True, is_cuda=True, is_cpu=False)
    assert count_moved_to_host("aten._to_copy.default", [gpu], on_host) == 3
    assert count_moved_to_host("aten._local_scalar_dense.default", [gpu], 0.5) == 1
    assert count_moved_to_host("aten.empty_like.default", [gpu], on_host) == 0
    assert count_moved_to_host("aten.add.Tensor", [on_host, on_host], on_host) == 0
    assert count_moved_to_host("aten.add.Tensor", [gpu], gpu) == 0


def test_numbers_read_back_in_bulk_are_no_kernels_work() -> None:
    inputs = [torch.zeros(64, 512), [torch.zeros(8, dtype=torch.int32)]]
    assert judge_read_back({"tolist": 9, "item": 3}, inputs) == []
    assert judge_read_back("no mapping", inputs) == []
    assert kinds(judge_read_back({"tolist": 4096}, inputs)) == ["not_causal"]


def test_triton_must_compute_what_the_terms_say(h200: Hardware) -> None:
    strict, mixed = task(h200, triton_only=True), task(h200)
    assert kinds(judge_watch(strict, seen(*FREE))[1]) == []
    assert kinds(judge_watch(strict, seen(*FREE, "aten.mm.default"))[1]) == ["library_call"]
    assert kinds(judge_watch(strict, seen(*FREE, foreign=["their_kernel"]))[1]) == ["library_call"]
    integrity, findings = judge_watch(mixed, seen(*FREE, "aten.mm.default", foreign=["their_kernel"]))
    assert findings == []
    assert integrity.computing == ("aten.mm.default",)
    assert integrity.foreign_kernels == ("their_kernel",)
    assert kinds(judge_watch(mixed, seen(*FREE, kernels=()))[1]) == ["no_triton_kernel"]


@pytest.mark.parametrize("answer", [{}, {"launches": 3}, {"launches": [7, {}], "operators": "aten.mm", "foreign": {}}])
def test_a_process_that_tells_nonsense_has_launched_nothing(h200: Hardware, answer: dict[str, object]) -> None:
    assert kinds(judge_watch(task(h200), answer)[1]) == ["no_triton_kernel"]


def test_another_compiler_is_no_triton_kernel(h200: Hardware) -> None:
    found = judge_watch(task(h200), seen(foreign=["triton_poi_fused_add_0"]))[1]
    assert kinds(found) == ["forbidden_construct"]
    assert "triton_poi_fused_add_0" in found[0].message
    assert kinds(judge_watch(task(h200), seen(compilers=["torch.compile"]))[1]) == ["forbidden_construct"]


@pytest.mark.parametrize(
    ("reference", "called", "leaf"),
    [
        (["aten.mm"], ["aten.mm.default"], True),
        (["aten.t", "aten.addmm"], ["aten.t.default", "aten.mm.default", "aten.add_.Tensor"], True),
        (["aten.t", "aten.addmm"], ["aten.t.default", "aten.mm.default"], False),
        (["aten.addmm", "aten.gelu"], ["aten.addmm.default"], False),
        (["aten.mm", "aten.relu"], ["aten.relu_.default", "aten.mm.default"], True),
        (["aten.softmax"], [], False),
        ([], ["aten.mm.default"], False),
    ],
)
def test_a_kernel_that_replaces_nothing_is_for_show(
    h200: Hardware, reference: list[str], called: list[str], leaf: bool
) -> None:
    found = judge_watch(task(h200), seen(*called), reference)[1]
    assert kinds(found) == (["not_causal"] if leaf else [])


@pytest.mark.parametrize(
    ("read", "given", "leaf"),
    [(256, 4096, False), (257, 4096, True), (256, 0, True), ("no number", 4096, True), (-1, 4096, True)],
)
def test_the_library_may_finish_a_small_rest(h200: Hardware, read: object, given: int, leaf: bool) -> None:
    """A reduction in two steps, whose last one is an operator of the reference on what the kernels left."""
    told = seen("aten.sum.dim_IntList", library_read=read)
    assert kinds(judge_watch(task(h200), told, ["aten.sum"], bytes_read=lambda: given)[1]) == (
        ["not_causal"] if leaf else []
    )


@pytest.mark.parametrize(("kernels", "leaf"), [(4096.0, False), (4095.0, True)])
def test_a_small_rest_is_small_beside_what_the_kernels_moved(h200: Hardware, kernels: float, leaf: bool) -> None:
    integrity = Integrity(kernels=("k",), operators=("aten.sum",), computing=("aten.sum",))
    traffic = Traffic.told(4, {}, kernels, 256, read=lambda: 1 << 20)
    assert kinds(judge_integrity(task(h200), integrity, ["aten.sum"], traffic=traffic)) == (
        ["not_causal"] if leaf else []
    )


@pytest.mark.parametrize(
    ("reference", "library", "copied", "leaf"),
    [
        (["aten.mm", "aten.clone", "aten.mm"], ["aten.mm.default"], False, False),
        (["aten.mm", "aten.clone", "aten.mm"], ["aten.mm.default"], True, True),
        (["aten.mm", "aten.clone", "aten.mm"], ["aten.mm.default", "aten.clone.default"], False, True),
        (["aten.mm", "aten.clone", "aten.mm"], ["aten.mm.default", "aten.copy_.default"], False, True),
        (["aten.mm", "aten.cat", "aten.clone"], ["aten.mm.default", "aten.cat.default"], False, False),
        (["aten.mm", "aten._to_copy"], ["aten.mm.default"], False, True),
        (["aten.mm"], ["aten.mm.default"], False, True),
    ],
)
def test_a_kernel_that_takes_over_a_movement_of_the_reference_replaces_something(
    h200: Hardware, reference: list[str], library: list[str], copied: bool, leaf: bool
) -> None:
    expected = ["not_causal"] if leaf else []
    assert kinds(judge_watch(task(h200), seen(*library, copied=copied), reference)[1]) == expected
    integrity = Integrity(kernels=("k",), operators=tuple(library), computing=computing(library))
    assert kinds(judge_integrity(task(h200), integrity, reference, moving=True, copied=copied)) == expected
    assert kinds(judge_integrity(task(h200), integrity, reference, moving=False)) == ["not_causal"], "it computes"


def test_bytes_that_computing_operators_read_are_counted() -> None:
    record, x = ForwardRecord(), torch.ones(8, 16)
    with torch.no_grad(), OperatorRecorder(record):
        x.contiguous().clone().t()[:4].sum()
    assert record.library_read == 4 * 8 * 4
    recorder = LibraryRecorder()
    with torch.no_grad(), recorder:
        recorder.recording = True
        x.clone().t()[:4].sum()
    assert recorder.bytes_read() == 4 * 8 * 4


@pytest.mark.parametrize(
    ("reference", "results", "leaf"),
    [
        (["aten.t", "aten.clone"], {"aten.clone.default": 4096}, True),
        (["aten.cat"], {"aten.copy_.default": 2048}, True),
        (["aten.t", "aten.clone"], {"aten.clone.default": 64, "aten.empty.memory_format": 4096}, False),
        (["aten.clone", "aten.mul"], {"aten.clone.default": 4096}, False),
        (["aten.t", "aten.clone"], "no mapping", False),
    ],
)
def test_copies_are_work_where_the_reference_does_nothing_else(
    h200: Hardware, reference: list[str], results: object, leaf: bool
) -> None:
    for terms in (task(h200), task(h200, triton_only=True)):
        found = judge_watch(terms, seen(*FREE, results=results), reference, answer_bytes=4096)[1]
        assert kinds(found) == (["not_causal"] if leaf else [])


SOFTMAX = ("aten.amax", "aten.sub", "aten.exp", "aten.sum", "aten.div")


@pytest.mark.parametrize(
    ("reference", "library", "kernels", "token"),
    [
        (["aten._softmax"], SOFTMAX, 4.0, True),
        (["aten._softmax"], SOFTMAX, 4096.0, False),
        (["aten._softmax"], SOFTMAX, None, False),
        (["aten.mm", "aten._softmax"], ["aten.mm"], 4.0, False),
        (["aten.mm", "aten._softmax"], [], 4.0, False),
    ],
)
def test_a_kernel_that_touches_next_to_nothing_beside_all_the_work(
    h200: Hardware, reference: list[str], library: list[str], kernels: float | None, token: bool
) -> None:
    integrity = Integrity(kernels=("k",), computing=tuple(library))
    found = judge_integrity(task(h200), integrity, reference, traffic=Traffic.told(4096, {}, kernels))
    assert kinds(found) == (["not_causal"] if token else [])


@pytest.mark.parametrize(
    ("reference", "library", "makers", "leaf"),
    [
        (["aten._softmax"], SOFTMAX, ["aten.div", "aten.div"], True),
        (["aten._softmax"], SOFTMAX, ["aten.div", ""], False),
        (["aten._softmax"], SOFTMAX, [], False),
        (["aten.mm", "aten.relu"], ["aten.mm"], ["aten.mm"], False),
        (["aten.mm", "aten.relu"], ["aten.mm", "aten.clamp_min"], ["aten.clamp_min"], True),
        (["aten.flip"], ["aten.index"], ["aten.index"], True),
    ],
)
def test_an_answer_that_lay_ready_is_not_the_kernels(
    h200: Hardware, reference: list[str], library: list[str], makers: list[str], leaf: bool
) -> None:
    integrity = Integrity(kernels=("k",), computing=tuple(library))
    assert kinds(judge_makers(integrity, reference, makers)) == (["not_causal"] if leaf else [])


def test_an_answer_that_survives_silence_is_not_the_kernels() -> None:
    integrity = Integrity(kernels=("k",), computing=("aten.mm.default",))
    wrong = Finding(kind="wrong_values", message="x")
    assert judge_silence(integrity, [wrong]) == (integrity.model_copy(update={"causal": True}), [])
    assert judge_silence(integrity, [], raised="IndexError")[0].causal is True
    assert judge_silence(integrity, [], untried="a CUDA graph")[0].causal is None
    known, findings = judge_silence(integrity, [])
    assert known.causal is False
    assert kinds(findings) == ["not_causal"]
    assert "aten.mm.default" in findings[0].message


REFERENCES = {
    "product": ("aten.mm.default",),
    "softmax": ("aten._softmax.default",),
    "attention": ("aten.mm.default", "aten.mul.Tensor", "aten.masked_fill.Scalar", "aten._softmax.default"),
    "linear and ReLU": ("aten.addmm.default", "aten.relu.default"),
    "transpose": ("aten.t.default", "aten.clone.default"),
    "ELU": ("aten.elu.default",),
    "all of a row": ("aten.all.dim",),
    "diagonal matrix": ("aten.diag_embed.default",),
}


@pytest.mark.parametrize(
    ("reference", "library"),
    [
        ("product", ("aten.convolution.default",)),
        ("softmax", ("aten._log_softmax.default", "aten.exp.default")),
        ("softmax", ()),
        ("attention", ("aten._scaled_dot_product_flash_attention_for_cpu.default",)),
        ("linear and ReLU", ("aten.addmm.default", "aten.clamp_min.default")),
        ("ELU", ("aten.elu.default",)),
        ("all of a row", ("aten.all.dim",)),
    ],
)
def test_kernels_that_only_hand_on_what_others_computed(
    h200: Hardware, reference: str, library: tuple[str, ...]
) -> None:
    integrity = Integrity(kernels=("copy",), operators=library, computing=computing(library))
    (finding,) = judge_integrity(task(h200), integrity, REFERENCES[reference], moving=True)
    assert finding.kind == "not_causal"


@pytest.mark.parametrize(
    ("reference", "library"),
    [
        ("linear and ReLU", ("aten.addmm.default",)),
        ("transpose", ()),
        ("product", ("aten.clone.default",)),
        ("ELU", ()),  # of positive numbers it is the number
        ("all of a row", ()),
        ("diagonal matrix", ()),
    ],
)
def test_kernels_that_move_where_moving_is_the_work(h200: Hardware, reference: str, library: tuple[str, ...]) -> None:
    integrity = Integrity(kernels=("k",), operators=library, computing=computing(library))
    moving = reference != "product"  # a kernel that multiplies stores numbers of its own
    assert judge_integrity(task(h200), integrity, REFERENCES[reference], moving=moving) == []

"""What an operator had computed before a kernel copied it."""

import torch

from egg_graph.evaluator.worker.launches import ForwardRecord, OperatorRecorder
from egg_graph.evaluator.worker.makers import Makers


def made_by(kernel_writes, library, *, then=lambda out: out) -> str:
    """The maker of an answer: a library's work, then a launch that fills `out`, then more of the library's."""
    a, b = torch.randn(16, 16), torch.randn(16, 16)
    record = ForwardRecord(makers=Makers([a, b]))
    with OperatorRecorder(record):
        product = library(a, b)
        out = torch.empty(16, 16)
    out.copy_(kernel_writes(product, a))
    record.makers.note_launch([product, a, out])
    with OperatorRecorder(record):
        answer = then(out)
    return record.makers.maker(answer)


def test_a_copy_of_what_an_operator_computed_has_a_maker() -> None:
    assert made_by(lambda y, a: y + 0.0, torch.mm) == "aten.mm.default"
    assert made_by(lambda y, a: 1.0 * y, lambda a, b: torch.relu(a @ b)) == "aten.relu.default"


def test_a_plain_copy_that_an_operator_goes_on_with_is_noticed() -> None:
    def copied(kernel_writes, then=torch.relu) -> bool:
        a, b = torch.randn(16, 16), torch.randn(16, 16)
        record = ForwardRecord(makers=Makers([a, b]))
        with OperatorRecorder(record):
            product = a @ b
            out = torch.empty(16, 16)
        out.copy_(kernel_writes(product, a))
        record.makers.note_launch([product, a, out])
        with OperatorRecorder(record):
            then(out), torch.relu(product)
        return record.makers.copied

    assert copied(lambda y, a: y + 0.0)
    assert copied(lambda y, a: a)
    assert copied(lambda y, a: y, then=lambda out: torch.relu(out.t()))
    assert not copied(lambda y, a: y.t())
    assert not copied(lambda y, a: y * 2.0)


def test_what_a_kernel_computed_has_none() -> None:
    assert made_by(lambda y, a: y * 2.0, torch.mm) == ""
    assert made_by(lambda y, a: a + 1.0, lambda a, b: a) == ""
    assert made_by(lambda y, a: y * 2.0, torch.mm, then=torch.relu) == "", "the library goes on with a kernel's result"

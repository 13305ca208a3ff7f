"""References under fake tensors: numbers that a constructor reads, recurrences, modules that are not installed."""

import gc

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from egg_graph.evaluator import LocalEvaluator, choose_shapes, forward_form, hear_progress, load_reference
from egg_graph.evaluator.problem.batch_norms import WholeBatchNorms
from egg_graph.evaluator.problem.forward_summary import summarize_forward
from egg_graph.evaluator.problem.recurrences import WholeRecurrences
from egg_graph.knowledge import load_hardware
from egg_graph.schema import BadInput, KernelTask
from tests.paths import EXAMPLES

STOCHASTIC_DEPTH = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.rates = [x.item() for x in torch.linspace(0, 0.1, depth)]
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        return self.linear(x) * (1 - self.rates[-1])

def get_inputs():
    return [torch.rand(4, 8)]

def get_init_inputs():
    return [5]
"""
LONG_GRU = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(16, 32, 2, bidirectional=True)

    def forward(self, x):
        return self.gru(x)[0]

def get_inputs():
    return [torch.rand(5000, 3, 16)]
"""


def task(source: str) -> KernelTask:
    return KernelTask(name="case", reference=source, target=load_hardware("h200"))


def test_a_constructor_finds_the_numbers_that_it_counted_out():
    with FakeTensorMode():
        model = load_reference(STOCHASTIC_DEPTH).model(0)
    assert model.rates == pytest.approx([0, 0.025, 0.05, 0.075, 0.1])


def test_real_weights_are_drawn_as_ever():
    torch.manual_seed(0)
    drawn = nn.Linear(8, 8).weight
    assert torch.equal(load_reference(STOCHASTIC_DEPTH).model(0).linear.weight, drawn)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("options", [{}, {"bidirectional": True, "batch_first": True}, {"num_layers": 2}])
def test_a_recurrence_has_its_shapes_and_strides(kind, options):
    real, states = kind(8, 16, **options)(torch.rand(5, 3, 8))
    heard = []
    with FakeTensorMode(), WholeRecurrences(heard.append):
        fake, fake_states = kind(8, 16, **options)(torch.rand(5, 3, 8))
    assert len(heard) == 1
    assert fake.shape == real.shape and fake.stride() == real.stride()
    pairs = zip(fake_states, states, strict=True) if kind is nn.LSTM else [(fake_states, states)]
    assert all(a.shape == b.shape for a, b in pairs)


@pytest.mark.parametrize("training", [True, False])
def test_a_batch_norm_is_one_operator(training):
    class Calls(TorchDispatchMode):
        seen = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            self.seen += 1
            return function(*args, **(kwargs or {}))

    with FakeTensorMode(), Calls() as calls, WholeBatchNorms():
        norm = nn.BatchNorm2d(8).train(training)
        x, before = torch.rand(2, 8, 4, 4), calls.seen
        assert norm(x).shape == x.shape
    assert calls.seen - before <= 2, "the answer, and the number of batches"


def test_a_batch_norm_that_does_not_fit_is_refused():
    with FakeTensorMode(), WholeBatchNorms():
        with pytest.raises(RuntimeError):
            nn.BatchNorm2d(4)(torch.rand(2, 8, 4, 4))
        with pytest.raises(ValueError, match="more than 1 value per channel"):
            nn.BatchNorm1d(4)(torch.rand(1, 4))


def test_a_packed_sequence_runs_as_pytorch_runs_it():
    heard = []
    packed = nn.utils.rnn.pack_padded_sequence(torch.rand(5, 3, 8), [5, 4, 2])
    with WholeRecurrences(heard.append):
        nn.GRU(8, 16)(packed)
    assert not heard


def test_a_long_recurrence_is_one_operator_with_the_flops_of_all_its_steps():
    summary = summarize_forward(task(LONG_GRU), load_reference(LONG_GRU))
    assert summary.operators.count("aten.gru.input") == 1 and len(summary.operators) < 10
    first, second = (16 + 32) * 96, (64 + 32) * 96
    assert summary.flops == 2 * 5000 * 3 * 2 * (first + second)
    assert "5000, 3, 64" in summary.outputs["output"]


def test_a_module_that_is_missing_is_told_before_a_judge_starts():
    told: list[str] = []
    evaluator = LocalEvaluator(device="none")
    missing = "import torch\nfrom nowhere_installed.parts import x\n" + STOCHASTIC_DEPTH
    with (
        hear_progress(lambda progress: told.append(progress.doing)),
        pytest.raises(BadInput, match="line 2: it imports"),
    ):
        evaluator.baseline(task(missing))
    assert told == []


def test_a_module_that_may_be_missing_is_not_asked_for():
    optional = "try:\n    import nowhere_installed\nexcept ImportError:\n    pass\n" + STOCHASTIC_DEPTH
    assert load_reference(optional).init_arguments() == ([5], {})


def test_steps_and_layers_are_a_form_and_sizes_are_not():
    loop = """
import torch
STEPS, WIDTH = 12, 16

class Model(torch.nn.Module):
    def __init__(self, steps):
        super().__init__()
        self.steps = steps

    def forward(self, x):
        for step in range(self.steps):
            x = torch.tanh(x) + step
        return x

def get_inputs():
    return [torch.rand(4, WIDTH)]

def get_init_inputs():
    return [STEPS]
"""
    form = forward_form(loop, {})
    assert form is not None and forward_form(loop, {"WIDTH": 48}, form) == form
    assert forward_form(loop, {"STEPS": 36}, form) is None and forward_form(loop, {"STEPS": 4}, form) is None


def test_a_reference_loaded_again_is_compiled_again():
    """PyTorch's compiler keeps its answer with the code of `forward`, and names it in the module that it compiled."""
    softmax = (EXAMPLES / "softmax.py").read_text()
    for _ in range(3):
        compiled = torch.compile(load_reference(softmax).model(0), backend="eager")
        with torch.no_grad():
            assert compiled(torch.zeros(2, 8)).shape == (2, 8)
        del compiled
        gc.collect()


ROUTED = """
import torch
import torch.nn as nn

TOKENS = 4096

class Model(nn.Module):
    def forward(self, x, ends):
        return x.cumsum(0)[ends.long() - 1]

def get_inputs():
    counts = torch.bincount(torch.randint(0, 6, (TOKENS,)))
    return [torch.randn(TOKENS, 32), counts[counts > 0].cumsum(0)]
"""


def test_inputs_whose_sizes_hang_on_values_are_drawn():
    reference = load_reference(ROUTED)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        inputs = reference.inputs(3)
        assert [tuple(x.shape) for x in inputs] == [(4096, 32), (6,)]
        assert all(x.fake_mode is mode for x in inputs)
    assert torch.equal(reference.inputs(3)[1], reference.inputs(3)[1]) and reference.inputs(3)[1][-1] == 4096
    assert choose_shapes(ROUTED)[0]["TOKENS"] < 4096


def test_inputs_that_fail_are_not_drawn_again():
    source = ROUTED.replace("counts[counts > 0]", "counts[counts > 0] + missing")
    with FakeTensorMode(allow_non_fake_inputs=True), pytest.raises(BadInput, match="missing"):
        load_reference(source).inputs(3)


CODEBOOK = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        steps = torch.linspace(0, 1, 9)
        values = sorted(((steps[1:] + steps[:-1]) / 2).tolist())
        self.register_buffer("code", torch.tensor(values))
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        return self.linear(x) * self.code[:4].sum()

def get_inputs():
    return [torch.rand(64, 32)]

def get_init_inputs():
    return [32]
"""


def test_a_constructor_that_computes_with_numbers_finds_them():
    reference = load_reference(CODEBOOK)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        model = reference.model(1)
        assert all(x.fake_mode is mode for x in (*model.parameters(), *model.buffers()))
        assert tuple(model(*reference.inputs(0)).shape) == (64, 32)
    assert reference.model(1).code.tolist() == pytest.approx([(2 * i + 1) / 16 for i in range(8)])
    assert (
        summarize_forward(
            KernelTask(name="code", reference=CODEBOOK, target=load_hardware("h200"), precision="ieee"), reference
        ).floor_ms
        > 0
    )


CONVERTED = """
import torch
from torch import nn

ROWS, WIDTH = 1 << 20, 1 << 16

class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = nn.Linear(width, width).to(torch.bfloat16)
        self.second = nn.Linear(width, width, bias=False).half().bfloat16()
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))

def get_inputs():
    return [torch.randn(ROWS, WIDTH).bfloat16()]

def get_init_inputs():
    return [WIDTH]
"""
"""Far too large to be made for real."""


@pytest.mark.parametrize("precision", ["ieee", "bf16"])
def test_a_constructor_may_convert_its_layers_and_a_policy_its_module(precision):
    task = KernelTask(name="x", reference=CONVERTED, target=load_hardware("h200"), precision=precision)
    summary = summarize_forward(task, load_reference(CONVERTED))
    assert summary.outputs["output"] == "bfloat16[1048576, 65536]"
    assert summary.compulsory_bytes == 2 * (2 * (1 << 36) + (1 << 32) + (1 << 16)), "the shared weight counts once"


def test_layers_converted_back_and_forth_stay_shared():
    with FakeTensorMode(allow_non_fake_inputs=True):
        model = load_reference(CONVERTED).model(0)
        assert model.cpu().half().second.weight is model.first.weight
        assert model.float().first.weight.dtype == torch.float32
        recurrent = nn.LSTM(4, 5).to(torch.bfloat16)
        assert recurrent(torch.randn(3, 2, 4).bfloat16())[0].dtype == torch.bfloat16

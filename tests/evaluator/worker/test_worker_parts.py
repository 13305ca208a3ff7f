"""What a worker tells of an answer, and the memory it poisons, as far as no GPU is needed."""

import pytest
import torch
from torch import nn

from egg_graph.evaluator.host.candidate import load_weights, own_tensors, reference_names
from egg_graph.evaluator.wire.faults import KernelFault
from egg_graph.evaluator.wire.leaf import describe_leaf, overlapping, shares_memory
from egg_graph.evaluator.worker.poison import NAN_AT_ANY_WIDTH, free_blocks


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_the_poison_of_free_memory_is_nan_at_any_width(dtype: torch.dtype) -> None:
    assert torch.full((4,), NAN_AT_ANY_WIDTH, dtype=torch.int64).view(dtype).isnan().all()


def test_unused_blocks_of_the_shared_pool_alone_are_named() -> None:
    blocks = [{"size": 512, "state": "active_allocated"}, {"size": 1024, "state": "inactive"}]
    snapshot = [
        {"address": 4096, "device": 0, "blocks": blocks},
        {"address": 9000, "device": 0, "segment_pool_id": (0, 1), "blocks": [{"size": 512, "state": "inactive"}]},
        {"address": 20480, "blocks": [{"size": 512, "state": "inactive", "address": 20480}]},
        {"address": 30000, "device": 1, "blocks": [{"size": 512, "state": "inactive"}]},
    ]
    assert list(free_blocks(snapshot)) == [(4608, 1024), (20480, 512)]


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [
        (torch.zeros(4, 5), False),
        (torch.zeros(4, 5).t(), False),
        (torch.zeros(4, 8)[:, :5], False),
        (torch.zeros(1, 5).expand(4, 5), True),
        (torch.zeros(1).expand(1), False),
        (torch.zeros(12).as_strided((4, 3), (2, 1)), True),
        (torch.zeros(0, 5).expand(3, 0, 5), False),
        (torch.zeros(()), False),
    ],
)
def test_elements_at_one_address_are_seen(tensor: torch.Tensor, expected: bool) -> None:
    assert overlapping(tensor) == expected


def test_memory_of_another_is_seen_and_a_neighbour_is_not() -> None:
    whole = torch.zeros(10)
    assert shares_memory(whole[2:5], whole)
    assert not shares_memory(whole[:5], whole[5:])
    assert shares_memory(whole.view(5, 2).t(), whole)
    leaf = describe_leaf(whole[1:], [("input x", whole), ("parameter w", torch.zeros(3))])
    assert leaf["aliases"] == ["input x"]
    assert leaf["device"] == "cpu"


def test_what_is_no_plain_tensor_is_strange() -> None:
    class Lazy(torch.Tensor):
        pass

    assert describe_leaf(torch.zeros(3).as_subclass(Lazy), []) == {"strange": "Lazy"}
    assert describe_leaf(3, []) == {"strange": "int"}
    assert describe_leaf(torch.zeros(3).to_sparse(), []) == {"strange": "sparse_coo tensor"}


class Telling(nn.Module):
    """Tells of its state what is not so, in every way that PyTorch asks a module."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.none = nn.BatchNorm1d(3), None
        self.same = self.norm
        self.scale = nn.Parameter(torch.ones(2))
        self.register_parameter("absent", None)

    def state_dict(self, *args: object, **kwargs: object) -> dict[str, object]:
        raise AssertionError("asked")

    load_state_dict = named_parameters = named_buffers = named_modules = children = state_dict


def test_state_is_read_and_loaded_past_what_a_module_says_of_itself() -> None:
    model = Telling()
    own = dict(own_tensors(model))
    state = nn.Module.state_dict(model)
    assert own.keys() == state.keys() and "same.running_mean" in own
    assert all(own[name] is not None and torch.equal(own[name], value) for name, value in state.items())
    load_weights(model, {name: value + 1 for name, value in state.items()})
    assert float(model.scale[0]) == 2.0 and float(model.norm.running_mean[0]) == 1.0


def test_modules_within_each_other_end_somewhere() -> None:
    model = nn.Sequential()
    model._modules["itself"] = model
    assert list(own_tensors(model)) == []


class Renamed(nn.Module):
    """Parameters of a linear layer and a norm under names of their own, and a buffer that no `state_dict` holds."""

    def __init__(self, size: int = 3) -> None:
        super().__init__()
        self.weight_t, self.offset = nn.Parameter(torch.zeros(4, size)), nn.Parameter(torch.zeros(4))
        self.gain = nn.Parameter(torch.zeros(4))
        self.register_buffer("workspace", torch.zeros(9), persistent=False)


STATE = {"linear.weight": torch.ones(4, 3), "linear.bias": torch.full((4,), 2.0), "gain": torch.full((4,), 3.0)}


def test_parameters_by_other_names_are_matched_in_order() -> None:
    model = Renamed()
    load_weights(model, STATE)
    assert [float(p.mean()) for p in (model.weight_t, model.offset, model.gain)] == [1.0, 2.0, 3.0]
    assert reference_names(model) == {"weight_t": "linear.weight", "offset": "linear.bias"}
    own = dict(own_tensors(model))
    assert own.keys() == {*STATE, "workspace"}
    assert all(torch.equal(own[name], value) for name, value in STATE.items())


def test_a_buffer_that_the_reference_lacks_stays_as_the_model_made_it() -> None:
    model = nn.Linear(3, 4)
    model.register_buffer("shapes", torch.tensor([3, 4]))
    load_weights(model, {"weight": torch.ones(4, 3), "bias": torch.ones(4)})
    assert model.shapes.tolist() == [3, 4] and float(model.weight.mean()) == 1.0
    with pytest.raises(KernelFault, match="bias"):
        load_weights(model, {"weight": torch.ones(4, 3)})


@pytest.mark.parametrize(
    "state",
    [
        {**STATE, "linear.weight": torch.ones(3, 4)},
        {**STATE, "linear.bias": torch.ones(4, dtype=torch.int64)},
        {**STATE, "further": torch.ones(4)},
        {name: value for name, value in STATE.items() if name != "linear.bias"},
    ],
    ids=["another shape", "another kind of number", "one more", "one less"],
)
def test_parameters_that_do_not_fit_one_to_one_are_refused(state: dict[str, torch.Tensor]) -> None:
    with pytest.raises(KernelFault) as caught:
        load_weights(Renamed(), state)
    assert caught.value.kind == "weights_mismatch"

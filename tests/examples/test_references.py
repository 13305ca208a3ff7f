"""Every reference in examples/ keeps KernelBench's form, runs, and answers to its inputs, its weights and its size."""

import importlib.util

import pytest
import torch

from tests.paths import EXAMPLES

OTHERS = ("embed_", "own_", "human_")
REFERENCES = sorted(path for path in EXAMPLES.glob("*.py") if not path.stem.startswith(OTHERS))
SMALL = {"TOKENS": 6, "ROWS": 6, "BATCH": 2, "HEADS": 3}


def load(path):
    spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def sizes(module):
    return {name: value for name, value in vars(module).items() if name.isupper() and isinstance(value, int)}


def shrink(module):
    """The same reference with every size at most 48, as a module-level override."""
    for name, value in sizes(module).items():
        setattr(module, name, SMALL.get(name, min(value, 48)))
    return module


def test_there_are_at_least_eight():
    assert len(REFERENCES) >= 8


@pytest.mark.parametrize("path", REFERENCES, ids=lambda path: path.stem)
class TestReference:
    def test_says_what_it_is_and_how_large(self, path):
        module = load(path)
        assert len(module.__doc__.splitlines()) == 2
        assert sizes(module), "sizes must be module-level integers, so that they can be overridden"

    def test_full_shapes_fit_and_are_worth_a_kernel(self, path):
        module = load(path)
        with torch.device("meta"):
            model, inputs = module.Model(*module.get_init_inputs()), module.get_inputs()
        tensors = [*inputs, *model.parameters(), *model.buffers()]
        moved = sum(t.numel() * t.element_size() for t in tensors)
        assert 0.2e9 < moved < 6e9
        assert {t.dtype for t in tensors} <= {torch.float32, torch.int64}

    def test_answers_to_inputs_and_weights(self, path):
        module = shrink(load(path))
        torch.manual_seed(0)
        model = module.Model(*module.get_init_inputs())
        inputs = module.get_inputs()
        out = model(*inputs)
        assert out.isfinite().all()
        assert not torch.equal(out, model(*module.get_inputs()))
        for parameter in model.parameters():
            before = parameter.detach().clone()
            parameter.data = parameter.data + torch.rand_like(parameter)
            assert not torch.allclose(out, model(*inputs)), "a kernel may forget this weight unnoticed"
            parameter.data = before

"""A module used as in service, and not only as it is judged elsewhere; the GPU is stood in for."""

from collections.abc import Callable

import pytest

from egg_graph.evaluator.gpu.executor import GpuExecutor
from egg_graph.evaluator.problem.plan import service_group
from egg_graph.evaluator.problem.problem import Problem

Open = Callable[..., object]
RIGHT = "return torch.relu(self.linear(x))"
CLASS_WIDE = """cache = type(self).__dict__.get("cache") or {}
type(self).cache = cache
weight = cache.setdefault(self.linear.weight._version, self.linear.weight.detach().clone())
return torch.relu(x @ weight.t() + self.linear.bias)"""
SAMPLED = """key = (x.shape, tuple(x[::7, ::5].reshape(-1).tolist()), self.linear.weight._version)
self.known = getattr(self, "known", {})
return self.known.setdefault(key, torch.relu(self.linear(x))).clone()"""
READ_AGAIN = """y = torch.relu(self.linear(x))
if hasattr(self, "x") and self.x.shape == x.shape:
    y = torch.where((self.x == x).all(1, keepdim=True), self.y, y)
self.x, self.y = x.clone(), y
return y"""
ON_LOAD = "self.linear.register_load_state_dict_post_hook(lambda m, k: setattr(m, 'w', m.weight.detach().clone()))"


def test_a_right_candidate_is_right_however_it_is_used(session_of: Open, problem: Problem) -> None:
    judged = GpuExecutor(session_of(RIGHT), problem, "stand-in").carry_out(service_group(problem, "awkward"))
    assert judged.findings == []
    assert len(judged.notes) == len(judged.checks) - 1 == 6


@pytest.mark.parametrize(
    ("body", "setup", "said"),
    [
        ("self.m = getattr(self, 'm', x.shape[0])\n" + RIGHT + " * (1 + (self.m != x.shape[0]))", "", "another shape"),
        (CLASS_WIDE, "", "second instance"),
        (RIGHT + " * (1 if self.training else 2)", "", "after eval()"),
        (RIGHT + " * (2 if torch.is_grad_enabled() else 1)", "", "gradients are enabled"),
        (SAMPLED, "", "that of an earlier call"),
        (READ_AGAIN, "", "overwritten by their owner"),
        ("return torch.relu(x @ self.linear.w.t() + self.linear.bias)", ON_LOAD, "changed in place"),
        ("torch.manual_seed(0)\n" + RIGHT, "", "global state: seed of the random generator"),
        ("torch.autograd.set_detect_anomaly(True)\n" + RIGHT, "", "anomaly_detection"),
    ],
)
def test_what_is_wrong_in_service_alone_is_named(
    session_of: Open, problem: Problem, body: str, setup: str, said: str
) -> None:
    judged = GpuExecutor(session_of(body, setup), problem, "stand-in").carry_out(service_group(problem, "awkward"))
    assert judged.failed
    assert any(said in finding.message for finding in judged.findings), judged.findings

"""How `model=` becomes a team, which failures are retried, and which target is chosen."""

import httpx
import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel

from egg_graph import BadInput, Context, ModelRefused, build_egg_graph
from egg_graph.agents import ModelTeam
from egg_graph.context import choose_target
from egg_graph.nodes.history import read_chains
from egg_graph.nodes.improvement import improves, measure_effect, read_metric
from egg_graph.nodes.retries import EVALUATOR_RETRY, MODEL_RETRY, is_infrastructure, model_may_recover
from egg_graph.schema import Attempt, Candidate, Environment, InfrastructureError, Usage
from egg_graph.team import Team, resolve_team
from tests.graph.scripted import REFERENCE, ScriptedEvaluator, ScriptedTeam, kernel


def chat_model():
    return GenericFakeChatModel(messages=iter([]))


def test_no_model_means_the_embedded_expert():
    from egg_graph.expert import EmbeddedExpert

    team = resolve_team(None)
    assert isinstance(team, EmbeddedExpert) and isinstance(team, Team)


def test_a_team_gets_ready_beside_the_baseline():
    calls = []

    class Slow(ScriptedTeam):
        def get_ready(self, task):
            calls.append(f"team for {task.name}")

    class Watched(ScriptedEvaluator):
        def baseline(self, task):
            calls.append("baseline")
            return super().baseline(task)

    build_egg_graph(team=Slow([kernel("ok")]), evaluator=Watched()).invoke({"reference": REFERENCE, "name": "sum"})
    assert calls == ["team for sum", "baseline"]


def test_a_team_is_taken_as_it_is():
    team = ScriptedTeam([kernel("ok")])
    assert resolve_team(team) is team


@pytest.mark.parametrize("model", ["one", "mapping"])
def test_models_make_a_model_team(model):
    given = chat_model() if model == "one" else dict.fromkeys(("analyst", "coder", "debugger"), chat_model())
    team = resolve_team(given)
    assert isinstance(team, ModelTeam) and isinstance(team, Team)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("", "names no model"),
        ({"writer": "x"}, "unknown role 'writer'"),
        ({}, "no model for the analyst"),
        (7, "pass a chat model"),
    ],
)
def test_what_is_no_model_is_refused_when_the_graph_is_built(model, message):
    with pytest.raises(BadInput, match=message):
        build_egg_graph(model)


def test_a_graph_is_built_without_making_team_or_evaluator():
    build_egg_graph("openai:some-model")


def test_a_model_out_of_reach_is_refused_before_the_baseline(monkeypatch, tmp_path):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    log = tmp_path / "log"
    graph = build_egg_graph("anthropic:some-model", evaluator=ScriptedEvaluator(log=log))
    with pytest.raises(BadInput, match="ANTHROPIC_API_KEY is not set"):
        graph.invoke({"reference": REFERENCE})
    assert not log.exists()


def openai_error(status):
    openai = pytest.importorskip("openai")
    response = httpx.Response(status, request=httpx.Request("POST", "http://localhost"))
    return openai.APIStatusError("sorry", response=response, body=None)


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
def test_passing_troubles_of_an_endpoint_are_retried(status):
    assert model_may_recover(openai_error(status))


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
def test_refusals_of_an_endpoint_are_not(status):
    assert not model_may_recover(openai_error(status))


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (TimeoutError(), True),
        (ConnectionResetError(), True),
        (httpx.ConnectTimeout("late"), True),
        (InfrastructureError("no answer in time"), True),
        (ModelRefused("bad request"), False),
        (BadInput("wrong"), False),
        (ValueError("a bug"), False),
        (RuntimeError("a bug"), False),
    ],
)
def test_other_errors(error, again):
    assert model_may_recover(error) is again
    assert is_infrastructure(error) is isinstance(error, InfrastructureError)


def test_the_policies_are_bounded():
    assert 2 <= EVALUATOR_RETRY.max_attempts <= 5 and 2 <= MODEL_RETRY.max_attempts <= 6


class Failing(ScriptedTeam):
    """Fails as an endpoint does, before it answers."""

    def __init__(self, errors):
        super().__init__([kernel("ok")], worth=[False])
        self.errors = list(errors)

    def write(self, brief):
        if self.errors:
            raise self.errors.pop(0)
        return super().write(brief)


def test_a_run_recovers_from_a_busy_endpoint_and_counts_the_answer_once(monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    team = Failing([InfrastructureError("429"), ConnectionError()])
    state = build_egg_graph(team=team, evaluator=ScriptedEvaluator(), principles=()).invoke(
        {"reference": REFERENCE}, context=Context(target="h100")
    )
    assert state["status"] == "correct" and len(state["attempts"]) == 1
    assert state["usage"] == Usage(calls=5, input_tokens=50, output_tokens=25)


def test_a_refusal_ends_the_run_at_once():
    team = Failing([ModelRefused("400: no such model"), ModelRefused("asked twice")])
    graph = build_egg_graph(team=team, evaluator=ScriptedEvaluator(), principles=())
    with pytest.raises(ModelRefused, match="no such model"):
        graph.invoke({"reference": REFERENCE}, context=Context(target="h100"))
    assert len(team.errors) == 1


# target


@pytest.fixture
def gpu(monkeypatch):
    """Pretend that the machine has this GPU, or none."""

    def pretend(name):
        here = Environment(machine="a test", gpu=name)
        monkeypatch.setattr("egg_graph.evaluator.device.detect.environment", lambda: here)

    return pretend


def test_auto_takes_the_machines_own_gpu(gpu):
    gpu("NVIDIA B200")
    assert choose_target("auto").key == "b200" and choose_target("mi300x").vendor == "amd"


def test_auto_without_a_gpu_writes_for_an_h200(gpu):
    gpu(None)
    assert choose_target("auto").key == "h200"


def test_an_unknown_gpu_is_named(gpu):
    gpu("NVIDIA Voodoo 5")
    with pytest.raises(BadInput, match=r"NVIDIA Voodoo 5.*h100"):
        choose_target("auto")


# standing


def evaluation(word, number):
    from egg_graph.knowledge import load_hardware
    from egg_graph.schema import Candidate, KernelTask

    task = KernelTask(name="t", reference=REFERENCE, target=load_hardware("h100"))
    candidate = Candidate(source=kernel(word, number), author="t", stage="tensor_tiling", mode="seed")
    return ScriptedEvaluator().evaluate(task, candidate)


def test_standing():
    assert improves(evaluation("ok", 2), None) and not improves(evaluation("bad", 2), None)
    assert improves(evaluation("ok", 2), evaluation("ok", 3))
    assert not improves(evaluation("ok", 2), evaluation("timed", 3))
    assert not improves(evaluation("halfproven", 2), evaluation("ok", 3))


def passing(number, *names, word="timed"):
    """A kernel of `number` ms that passed checks of these names."""
    (check, *_) = evaluation("ok", 1).checks
    checks = tuple(check.model_copy(update={"name": name}) for name in names)
    return evaluation(word, number).model_copy(update={"checks": checks})


def test_a_kernel_that_refuses_odd_shapes_needs_a_gain_that_is_worth_them():
    general = passing(10, "awkward", "full")
    assert improves(passing(8, "aligned_0", "full"), general)
    assert not improves(passing(9.5, "aligned_0", "full"), general), "5 % are not worth it"
    assert improves(passing(9.5, "awkward", "full"), general)
    assert not improves(passing(1, "aligned_0"), general), "nobody knows whether it is right at full shape"
    assert not improves(passing(1, "full"), general), "it is right at no reduced shape"
    assert improves(general, passing(10.5, "aligned_0", "full")), "right at odd shapes is no less than at aligned ones"
    untimed = passing(10, "shrunk", "awkward", word="ok")
    assert not improves(passing(1, "shrunk", word="ok"), untimed), "a lower bound is no gain"


def test_a_faster_kernel_that_proves_less_is_no_dead_end_and_its_chain_says_what_it_lacks():
    best = passing(10, "shrunk", "awkward", "full")
    new = passing(5, "aligned_0")
    made = []
    for number, one in enumerate((best, new), 1):
        written = Candidate(source=kernel("timed", number), author="t", stage="tensor_tiling", mode="seed")
        judged = one.model_copy(update={"candidate": written.id})
        made.append(Attempt(number=number, candidate=written, evaluation=judged, improved=number == 1))
    *_, chain = read_chains(made, made[0].candidate, "tensor_tiling")
    assert (chain.outcome, chain.lost) == ("less_proven", ("awkward", "full", "shrunk"))


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("milliseconds", 2.0),
        ("bound_ms", 2.0),
        ("launches", 1.0),
        ("dram_bytes", 1.0),
        ("occupancy", None),
        ("registers", None),
        ("nonsense__metric", None),
    ],
)
def test_measured(metric, value):
    assert read_metric(evaluation("timed", 2), metric) == value


def test_an_effect_that_cannot_be_measured_is_neither_held_nor_not():
    from egg_graph.schema import Expectation

    told = measure_effect(
        Expectation(metric="milliseconds", direction="down"), evaluation("ok", 3), evaluation("timed", 2)
    )
    assert (told.before, told.after, told.held) == (None, 2.0, None)
    up = measure_effect(Expectation(metric="bound_ms", direction="up"), evaluation("ok", 3), evaluation("ok", 2))
    assert up.held is False

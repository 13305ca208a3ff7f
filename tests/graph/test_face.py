"""The public face: lazy, complete, and drawn as it is."""

import subprocess
import sys

import egg_graph
from egg_graph.drawing import page
from tests.paths import ROOT


def loaded_by(statement):
    code = f"{statement}; import sys; print(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    timed = {line.rsplit("|", 1)[1].strip().split(".")[0] for line in done.stderr.splitlines() if "|" in line}
    return set(done.stdout.split()) | timed


def test_importing_it_loads_nothing_heavy():
    assert not {"torch", "triton", "openai", "langgraph", "langchain_openai", "pydantic"} & loaded_by(
        "import egg_graph"
    )


def test_building_a_graph_loads_no_torch_triton_or_openai():
    built = loaded_by("import egg_graph; egg_graph.build_egg_graph(); egg_graph.optimize")
    assert "langgraph" in built and not {"torch", "triton", "openai", "langchain_openai", "matplotlib"} & built


def test_every_public_name_is_there():
    for name in egg_graph.__all__:
        assert getattr(egg_graph, name) is not None
    assert set(egg_graph.__all__) <= set(dir(egg_graph))
    assert not hasattr(egg_graph, "nonsense")


def test_the_values_of_teams_evaluators_and_listeners_are_public():
    names = {"Analysis", "Baseline", "Brief", "Diagnosis", "Draft", "Event", "Trial", "Team", "Evaluator", "to_json"}
    assert names <= set(egg_graph.__all__)


def test_every_drawing_shows_that_a_sweep_goes_from_the_analyst_to_the_tuner():
    drawn = egg_graph.build_egg_graph().get_graph(xray=True).draw_mermaid()
    sweeps = [line for line in drawn.splitlines() if "analyst" in line and "tuner" in line]
    assert len(sweeps) == 4 and all("sweep" in line for line in sweeps)


def test_the_drawing_in_the_docs_is_the_codes():
    told = (ROOT / "docs" / "graph.md").read_text(encoding="utf-8")
    assert told == page(), "run: python -m egg_graph.drawing > docs/graph.md"

"""`langgraph dev` on a bare checkout: it boots offline, and langgraph_sdk and an MCP client drive runs to their end."""

import asyncio
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from pathlib import Path

import pytest
from langgraph.pregel.remote import RemoteGraph
from langgraph_sdk import get_sync_client
from langgraph_sdk.errors import BadRequestError
from mcp import Client

from egg_graph.expert import EmbeddedExpert
from egg_graph.steering.topology import all_nodes
from tests.docs.test_pages import blocks
from tests.graph.scripted import REFERENCE, kernel
from tests.paths import ROOT

SCRIPT = [kernel("bad", 1), kernel("ok", 9), kernel("ok", 8)]
SCRIPTED_GRAPH = f"""
from pathlib import Path

import egg_graph
from tests.graph.scripted import ScriptedEvaluator, StatelessTeam

here = Path(__file__).parent
assert Path(egg_graph.__file__).is_relative_to(here), "the checkout itself is served"

graph = egg_graph.served(egg_graph.build_egg_graph(team=StatelessTeam({SCRIPT!r}), evaluator=ScriptedEvaluator()))
"""
TOGETHER_GRAPH = f"""
import threading

import egg_graph
from tests.graph.scripted import ScriptedEvaluator, StatelessTeam


class Together(ScriptedEvaluator):
    two = threading.Barrier(2)

    def baseline(self, task):
        self.two.wait(timeout=20)  # a server that runs one after the other never gets past it
        return super().baseline(task)


graph = egg_graph.build_egg_graph(team=StatelessTeam({SCRIPT!r}), evaluator=Together())
"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """The tracked files (and those that are to be) in an empty folder, nothing installed from them."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("no git checkout to copy")
    folder = tmp_path_factory.mktemp("checkout")
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def url(checkout):
    """A server of the real langgraph.json, started as `make studio` does, with two more graphs that follow a script."""
    (checkout / "scripted_graph.py").write_text(SCRIPTED_GRAPH)
    (checkout / "together_graph.py").write_text(TOGETHER_GRAPH)
    config = json.loads((checkout / "langgraph.json").read_text())
    config["graphs"]["scripted"] = {"path": "./scripted_graph.py:graph"}
    config["graphs"]["together"] = {"path": "./together_graph.py:graph"}
    (checkout / "test.json").write_text(json.dumps(config))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "EGG_MODEL")} | {
        "PYTHONPATH": str(checkout / "src"),  # as if the checkout were installed
        "LANGGRAPH_STRICT_MSGPACK": "true",
        "LANGGRAPH_CLI_NO_ANALYTICS": "1",
        "LANGSMITH_TRACING": "false",
    }
    log = checkout / "server.log"
    (options,) = re.findall(r"^\t.*/langgraph dev (.*)$", (checkout / "Makefile").read_text(), re.MULTILINE)
    command = [str(Path(sys.executable).parent / "langgraph"), "dev", *shlex.split(options), "--no-reload"]
    with log.open("w") as output:
        server = subprocess.Popen(
            [*command, "--port", str(port), "--config", "test.json"],
            cwd=checkout,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            yield _when_up(f"http://127.0.0.1:{port}", server, log)
        finally:
            server.terminate()
            server.wait(timeout=20)


def _when_up(url, server, log):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/ok", timeout=2):
                return url
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"the server did not come up:\n{log.read_text()[-4000:]}")


@pytest.fixture(scope="module")
def client(url):
    return get_sync_client(url=url)


def test_the_real_graph_is_served_with_its_description(client):
    assistants = {a["graph_id"]: a for a in client.assistants.search()}
    assert set(assistants) == {"egg", "evaluator", "chat", "scripted", "together"}
    assert all(assistants[name]["description"] for name in ("egg", "evaluator", "chat"))
    assert assistants["egg"]["description"].startswith("From a PyTorch module to a proven Triton kernel")


def test_schemas_show_described_knobs_with_their_choices(client):
    (assistant,) = client.assistants.search(graph_id="egg")
    schemas = client.assistants.get_schemas(assistant["assistant_id"])
    assert set(schemas["input_schema"]["properties"]) == {"reference", "name", "kernel", "plan"}
    knobs = schemas["context_schema"]["properties"]
    assert all(knob["description"] for knob in knobs.values())
    assert knobs["precision"]["enum"] == ["ieee", "tf32", "tf32_truncated", "bf16", "fp16"]
    assert {"verdict", "kernel", "profile", "diagnosis"} <= set(schemas["output_schema"]["properties"])


def test_the_drawing_shows_every_step_of_every_stage(client):
    nodes = {node["id"] for node in client.assistants.get_graph("egg")["nodes"]}
    assert nodes == {"__start__", *all_nodes(), "__end__"}


@pytest.mark.parametrize("graph", ["egg", "evaluator"])
def test_every_field_of_input_and_context_is_described_for_a_person(client, graph):
    (assistant,) = client.assistants.search(graph_id=graph)
    schemas = client.assistants.get_schemas(assistant["assistant_id"])
    for kind in ("input_schema", "context_schema"):
        schema = schemas[kind]
        told = [schema["description"], *(field["description"] for field in schema["properties"].values())]
        assert all(told) and not [text for text in told if "Raises" in text or "Args" in text or "`" in text]


def test_a_run_to_its_end_with_updates_that_show_kernel_profile_and_diagnosis(client, checkout):
    thread = client.threads.create()["thread_id"]
    parts = list(
        client.runs.stream(
            thread,
            "scripted",
            input={"reference": REFERENCE},
            context={"target": "h100", "max_optimizations": 1},
            stream_mode=["updates", "custom"],
            stream_subgraphs=True,
        )
    )
    errors = [part for part in parts if part.event == "error"]
    assert not errors
    updates = {}
    for part in parts:
        if part.event.startswith("updates"):
            for node, values in part.data.items():
                updates.setdefault(node, []).append(values or {})
    first = {step: updates[f"algorithmic_structure.{step}"] for step in ("coder", "debugger", "evaluator")}
    assert first["coder"][0]["candidate"]["source"] == SCRIPT[0]
    assert first["debugger"][0]["diagnosis"]["modification_plan"]
    assert first["evaluator"][1]["profile"]["metrics"]["registers"]["value"] == 32.0
    assert first["evaluator"][1]["kernel"] == SCRIPT[1]
    events = [part.data["event"] for part in parts if part.event.startswith("custom")]
    assert events[:3] == ["started", "started", "baseline"] and events[-1] == "verdict" and "attempt" in events

    state = client.threads.get_state(thread)
    assert state["next"] == [] and state["values"]["status"] == "correct" and state["values"]["kernel"] == SCRIPT[2]
    assert len(client.threads.get_history(thread)) > 5
    assert "unregistered type" not in (checkout / "server.log").read_text()


KNOBS = {"target": "h100", "max_optimizations": 1, "stages": ["algorithmic_structure"]}


def test_a_persons_whole_session(client):
    """Start, watch, pause before the evaluator, edit the kernel, resume, fork with another plan, compare."""
    thread = client.threads.create()["thread_id"]
    seen = []
    for part in client.runs.stream(
        thread,
        "scripted",
        input={"reference": REFERENCE},
        context=KNOBS,
        stream_mode=["updates", "custom"],
        interrupt_before=["evaluator"],
    ):
        assert part.event != "error", part.data
        seen.append(part)
    roles = [part.data.get("role") for part in seen if part.event == "custom"]
    assert roles[-1] == "coder"

    paused = client.threads.get_state(thread)
    assert paused["next"] == ["algorithmic_structure.evaluator"]
    candidate = paused["values"]["candidate"]
    assert candidate["source"] == SCRIPT[0] and candidate["author"] == "scripted"
    client.threads.update_state(thread, {"candidate": {**candidate, "source": kernel("ok", 5)}})

    ended = client.runs.wait(thread, "scripted", input=None)
    mine, optimized = ended["attempts"]
    assert (mine["candidate"]["author"], mine["evaluation"]["status"]) == ("user", "correct")
    assert optimized["candidate"]["plan"] == "plan in algorithmic_structure after 1"
    assert ended["best"]["author"] == "user" and "a person wrote or edited this kernel" in ended["verdict"]
    assert ended["knobs"]["max_optimizations"] == 1, "the run's own knobs, though the resume brought none"

    history = client.threads.get_history(thread, limit=100)
    steps = [state["next"][0] for state in history if state["next"]]
    assert {f"algorithmic_structure.{step}" for step in ("coder", "evaluator", "analyst", "close")} <= set(steps)
    before = next(s for s in history if s["next"] == ["algorithmic_structure.coder"])  # the newest first
    plan = {**before["values"]["analysis"], "plan": "halve the tile"}
    fork = client.threads.update_state(thread, {"analysis": plan}, checkpoint_id=before["checkpoint"]["checkpoint_id"])
    forked = client.runs.wait(thread, "scripted", input=None, checkpoint=fork["checkpoint"])
    assert forked["attempts"][0] == mine, "what came before the fork is not done again"
    assert forked["attempts"][1]["candidate"]["plan"] == "halve the tile"

    ends = [s["values"] for s in client.threads.get_history(thread, limit=100) if not s["next"]]
    assert [end["attempts"][1]["candidate"]["plan"] for end in ends] == [
        "halve the tile",
        optimized["candidate"]["plan"],
    ]
    assert [end["verdict"] for end in ends] == [forked["verdict"], ended["verdict"]]


def test_the_snippet_of_the_page_runs_as_it_stands(url, tmp_path, monkeypatch, capsys):
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "softmax.py").write_text(REFERENCE)
    (tmp_path / "mine.py").write_text(kernel("ok", 5))
    monkeypatch.chdir(tmp_path)
    (block,) = blocks(ROOT / "docs" / "studio.md", "python")
    names = {}
    exec(block.replace("http://127.0.0.1:2024", url).replace('"egg"', '"scripted"'), names)
    assert names["first"]["attempts"][0]["candidate"]["author"] == "user"
    assert "halve the tile" in [attempt["candidate"]["plan"] for attempt in names["second"]["attempts"]]
    assert capsys.readouterr().out.count("Accepted as correct") >= 2


def test_a_kernel_and_a_plan_are_handed_in(client):
    given = {"reference": REFERENCE, "kernel": kernel("ok", 7), "plan": "halve the tile"}
    ended = client.runs.wait(None, "scripted", input=given, context=KNOBS)
    first, second = ended["attempts"]
    assert (first["candidate"]["source"], first["candidate"]["author"]) == (kernel("ok", 7), "user")
    assert second["candidate"]["plan"] == "halve the tile"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"context": {**KNOBS, "max_atempts": 3}}, "no knob 'max_atempts'; the knobs are precision, domain, target"),
        ({"context": {"colour": "red"}}, "no knob 'colour'"),
        ({"interrupt_before": ["evaluater"]}, "no node 'evaluater'; name one of prepare"),
    ],
)
def test_what_there_is_not_is_refused_as_it_is_locally(client, options, says):
    answer = client.runs.wait(None, "scripted", input={"reference": REFERENCE}, raise_error=False, **options)
    assert answer["__error__"]["error"] == "BadInput" and answer["__error__"]["message"].startswith(says)


def test_knobs_in_the_configuration_steer_a_run_as_well(client):
    config = {"configurable": {**KNOBS, "max_attempts": 1}}
    assert len(client.runs.wait(None, "scripted", input={"reference": REFERENCE}, config=config)["attempts"]) == 1


def test_a_bad_edit_is_refused_and_changes_nothing(client):
    thread = client.threads.create()["thread_id"]
    client.runs.wait(thread, "scripted", input={"reference": REFERENCE}, context=KNOBS, interrupt_before=["evaluator"])
    before = client.threads.get_state(thread)["checkpoint"]
    with pytest.raises(BadRequestError, match=r"^state key 'candidate': candidate\.source: Field required"):
        client.threads.update_state(thread, {"candidate": {"sauce": "x"}})
    assert client.threads.get_state(thread)["checkpoint"] == before


def test_a_remote_graph_pauses_edits_and_resumes(url):
    remote, config = RemoteGraph("scripted", url=url), {"configurable": {"thread_id": str(uuid.uuid4())}}
    get_sync_client(url=url).threads.create(thread_id=config["configurable"]["thread_id"])
    remote.invoke({"reference": REFERENCE}, config, context=KNOBS, interrupt_before=["evaluator"])
    state = remote.get_state(config)
    assert state.next == ("algorithmic_structure.evaluator",)
    remote.update_state(config, {"candidate": {**state.values["candidate"], "source": kernel("ok", 5)}})
    assert remote.invoke(None, config)["best"]["author"] == "user"


def test_the_real_graph_runs_to_its_end(client):
    """The embedded expert and the real evaluator, with nothing installed: child processes find the checkout too."""
    answer = client.runs.wait(
        None,
        "egg",
        input={"reference": REFERENCE, "name": "relu"},
        context={"target": "h100", "device": "none", "stages": ["algorithmic_structure"], "tune": False},
    )
    assert answer["status"] == "correct" and "@triton.jit" in answer["kernel"]
    assert answer["best"]["author"] == EmbeddedExpert().name


def test_bad_input_is_an_error_that_says_what_is_missing(client):
    answer = client.runs.wait(None, "scripted", input={"reference": ""}, raise_error=False)
    assert answer["__error__"]["error"] == "BadInput" and "'reference' is missing" in answer["__error__"]["message"]


def test_the_configuration_is_valid(checkout):
    command = [str(Path(sys.executable).parent / "langgraph"), "validate", "--config", "langgraph.json"]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_two_runs_go_on_at_once(client):
    runs = []
    for _ in range(2):
        thread = client.threads.create()["thread_id"]
        runs.append((thread, client.runs.create(thread, "together", input={"reference": REFERENCE})["run_id"]))
    assert [client.runs.join(thread, run)["status"] for thread, run in runs] == ["correct", "correct"]


def test_the_evaluator_alone_judges_a_kernel_that_is_handed_in(client):
    answer = client.runs.wait(
        None,
        "evaluator",
        input={"reference": REFERENCE, "kernel": "import torch\n"},
        context={"target": "h100", "device": "none"},
    )
    assert not answer["usable"] and answer["findings"]
    assert answer["evaluation"]["status"] == answer["status"] != "correct"


def test_the_chat_facade_answers_in_messages(client):
    answer = client.runs.wait(None, "chat", input={"messages": [{"role": "user", "content": "Hello"}]})
    assert "There is no module in the last message" in answer["messages"][-1]["content"]


def test_an_mcp_client_finds_described_tools_and_gets_a_page(url):
    """The server's own tool at /mcp would answer with the whole state, and knows no knobs."""

    async def drive():
        async with Client(f"{url}/mcp") as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            knobs = {"device": "none", "stages": [], "target": "h100"}
            started = await client.call_tool("start_run", {"reference": REFERENCE, "knobs": knobs})
            watched = {"run": started.structured_content["run"], "seconds": 60}
            return tools, await client.call_tool("watch_run", watched)

    tools, page = asyncio.run(drive())
    for tool in tools.values():
        assert tool.description and all(field["description"] for field in tool.input_schema["properties"].values())
    assert tools["start_run"].input_schema["properties"]["knobs"]["properties"]["max_attempts"]["description"]
    assert page.structured_content["result"]["verdict"].endswith("no attempt was made (no stage was to run).")
    assert len(page.content[0].text) < 12_000


def test_a_dockerfile_is_written_that_installs_the_package(checkout):
    command = [str(Path(sys.executable).parent / "langgraph"), "dockerfile", "--config", "langgraph.json", "Dockerfile"]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    text = (checkout / "Dockerfile").read_text()
    assert "/graphs/egg.py:graph" in text and "uv pip install" in text
    installed = re.findall(r"-c /api/constraints.txt (\S+)$", text, re.MULTILINE)
    assert installed and not [name for name in installed if re.search("[<>]", name)], "the shell would redirect"

"""The MCP server, driven by the official client: in this process, over stdio and over HTTP."""

import asyncio
import os
import socket
import subprocess
import sys
import time

import pytest

pytest.importorskip("mcp", reason="the MCP SDK is not installed: pip install 'egg-graph[mcp]'")

from mcp import Client, StdioServerParameters

from egg_graph.mcp.server import build_server
from egg_graph.schema import BadInput
from tests.graph.scripted import REFERENCE, ScriptedEvaluator, ScriptedTeam, kernel
from tests.paths import IMPORTABLE

TOOLS = {
    "start_run",
    "resume_run",
    "stop_run",
    "watch_run",
    "next_prompt",
    "answer_prompt",
    "evaluate_kernel",
    "read_evidence",
    "list_runs",
}
ANSWER = "Here it is.\n\n```python\n# timed 2.0\nclass ModelNew:\n    pass\n```\n"
HANDOFF = {
    "reference": REFERENCE,
    "team": "handoff",
    "knobs": {"target": "h100", "stages": ["algorithmic_structure"], "max_optimizations": 0, "expert_seed": False},
}
SCRIPTED_STDIO = """
import sys
from egg_graph.mcp.server import build_server
from tests.graph.scripted import ScriptedEvaluator
build_server(sys.argv[1], evaluator=ScriptedEvaluator()).run("stdio")
"""


def serve(folder, *writes, log=None):
    team = ScriptedTeam(writes or [kernel("timed", 2.0)], worth=(False,))
    return build_server(folder, team=team, evaluator=ScriptedEvaluator(log=log))


def drive(server, story):
    """Connect to a server, and let `story(call)` call its tools; `call` returns (is_error, structured or text)."""

    async def run():
        async with Client(server) as client:

            async def call(tool, progress=None, **arguments):
                result = await client.call_tool(tool, arguments, progress_callback=progress)
                return result.is_error, result.structured_content if not result.is_error else result.content[0].text

            return await asyncio.wait_for(story(call, client), 60)

    return asyncio.run(run())


def test_a_run_is_watched_to_its_end_and_its_evidence_read(tmp_path):
    notified = []

    async def progress(value, total, message):
        notified.append((value, message))

    async def story(call, client):
        _, page = await call("start_run", reference=REFERENCE, knobs={"target": "h100"})
        _, end = await call("watch_run", progress, run=page["run"], seconds=50)
        parts = {}
        for part in ("verdict", "kernel", "attempts", "evaluation"):
            parts[part] = (await call("read_evidence", run=page["run"], part=part))[1]["result"]
        return page["run"], end, parts, (await call("list_runs"))[1]["result"]

    run, end, parts, runs = drive(serve(tmp_path, kernel("bad"), kernel("timed", 2.0)), story)
    assert (end["phase"], end["attempts"], end["result"]["ratio"]) == ("ended", 2, 2.0)
    assert end["result"]["kernel"] == parts["kernel"] == kernel("timed", 2.0)
    assert parts["verdict"].startswith("Accepted as faster") and '"status": "faster"' in parts["evaluation"]
    assert parts["attempts"].splitlines()[0].split(";")[0].endswith("by scripted: incorrect")
    assert len(parts["attempts"].splitlines()) == 2, "calls are no attempts"
    assert runs == [run]
    values = [value for value, _ in notified]
    assert values == sorted(set(values)), "progress has to increase"
    said = "\n".join(message for _, message in notified)
    assert "evaluation took 0.0 s: incorrect" in said
    assert "baseline: ok" in said and "attempt 2 (repair): faster; 2 ms, 2.00x" in said


def test_an_agent_plays_the_team_by_prompts_and_answers(tmp_path):
    async def story(call, client):
        _, page = await call("start_run", **HANDOFF)
        _, prompt = await call("next_prompt", run=page["run"], seconds=50)
        wrong = await call("answer_prompt", run=page["run"], prompt="007-coder", text=ANSWER)
        empty = await call("answer_prompt", run=page["run"], prompt=prompt["prompt"], text=" ")
        await call("answer_prompt", run=page["run"], prompt=prompt["prompt"], text=ANSWER)
        _, end = await call("watch_run", run=page["run"], seconds=50)
        return prompt, wrong, empty, end

    prompt, wrong, empty, end = drive(serve(tmp_path), story)
    assert (prompt["phase"], prompt["prompt"], prompt["role"]) == ("waiting_for_answer", "001-coder", "coder")
    assert "torch.relu(x)" in prompt["text"]
    assert wrong == (True, "prompt '007-coder' waits for no answer; waiting: 001-coder")
    assert empty[0] and "is empty" in empty[1]
    assert (end["phase"], end["result"]["status"]) == ("ended", "faster")


def test_a_run_is_stopped_and_resumed_where_it_was(tmp_path):
    log = tmp_path / "log"

    async def story(call, client):
        _, page = await call("start_run", **HANDOFF)
        run = page["run"]
        await call("next_prompt", run=run, seconds=50)
        twice = await call("resume_run", run=run)
        _, stopping = await call("stop_run", run=run)
        for _ in range(200):
            _, stopped = await call("watch_run", run=run, seconds=0)
            if stopped["phase"] == "stopped":
                break
            await asyncio.sleep(0.05)
        await call("resume_run", run=run)
        _, prompt = await call("next_prompt", run=run, seconds=50)
        await call("answer_prompt", run=run, prompt=prompt["prompt"], text=ANSWER)
        _, end = await call("watch_run", run=run, seconds=50)
        return twice, stopping, stopped, prompt, end

    twice, stopping, stopped, prompt, end = drive(serve(tmp_path / "runs", log=log), story)
    assert twice[0] and "is at work" in twice[1]
    assert stopping["phase"] in ("stopping", "stopped"), "a run that was told to stop is not said to be at work"
    assert stopped["phase"] == "stopped" and stopped["result"] is None
    assert prompt["prompt"] == "001-coder", "the prompt that was asked before is asked again under its number"
    assert end["result"]["status"] == "faster"
    assert log.read_text().splitlines().count("baseline") == 1


def test_a_kernel_is_judged_with_signs_of_life(tmp_path):
    notified = []

    async def progress(value, total, message):
        notified.append(message)

    async def story(call, client):
        knobs = {"target": "h100"}
        return await call("evaluate_kernel", progress, reference=REFERENCE, kernel=kernel("bad"), knobs=knobs)

    _, verdict = drive(serve(tmp_path), story)
    assert (verdict["status"], verdict["usable"]) == ("incorrect", False)
    assert verdict["evidence"].startswith(str(tmp_path)) and notified[0].startswith("judges the kernel")


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("start_run", {"reference": ""}, "'reference' is missing or empty"),
        ("start_run", {"reference": REFERENCE, "knobs": {"max_atempts": 1}}, "no knob 'max_atempts'"),
        ("start_run", {"reference": REFERENCE, "knobs": {"name": "x"}}, "no knob 'name'"),
        ("start_run", {}, "argument reference: field required"),
        (
            "start_run",
            {"reference": REFERENCE, "max_atempts": 2},
            "start_run: no argument 'max_atempts'; its arguments are reference, name, team, knobs; "
            'knobs nest in knobs={…}, such as knobs={"max_attempts": 8}',
        ),
        ("start_run", {"reference": REFERENCE, "stages": []}, "no argument 'stages'"),
        ("answer_prompt", {"answer": "x"}, "no argument 'answer'; its arguments are run, prompt, text"),
        ("list_runs", {"run": "x"}, "list_runs: no argument 'run'; it takes none"),
        (
            "start_run",
            {"reference": REFERENCE, "team": "handof"},
            "no team 'handof': the teams are 'expert', 'handoff'",
        ),
        ("start_run", {"reference": REFERENCE, "team": "nobody:x"}, "the teams are 'expert', 'handoff'"),
        ("watch_run", {"run": "nothing"}, "no run 'nothing'"),
        ("resume_run", {"run": "../../etc"}, "give the id that start_run returned"),
        ("read_evidence", {"run": "nothing"}, "no run 'nothing'"),
        ("evaluate_kernel", {"reference": REFERENCE, "kernel": ""}, "'kernel' is missing or empty"),
        ("evaluate_kernel", {"reference": REFERENCE, "kernel": "x", "knobs": {"device": "tpu"}}, "device must be"),
    ],
)
def test_an_error_is_one_line(tmp_path, tool, arguments, says):
    is_error, text = drive(serve(tmp_path), lambda call, client: call(tool, **arguments))
    assert is_error and says in text and "\n" not in text


class Refusing(ScriptedEvaluator):
    def baseline(self, task):
        raise BadInput("the reference does not run: line 3")


def test_a_refused_run_fails_with_its_line(tmp_path):
    async def story(call, client):
        _, page = await call("start_run", reference=REFERENCE)
        return await call("watch_run", run=page["run"], seconds=50)

    _, end = drive(build_server(tmp_path, evaluator=Refusing()), story)
    assert (end["phase"], end["error"]) == ("failed", "the reference does not run: line 3")


def environment():
    return {**os.environ, "PYTHONPATH": IMPORTABLE}


def test_stdio_serves_a_handoff_and_ends_with_its_client(tmp_path):
    """The client leaves while the run waits for an answer: the server ends, and another one resumes the run."""
    server = StdioServerParameters(
        command=sys.executable, args=["-c", SCRIPTED_STDIO, str(tmp_path)], env=environment(), cwd=tmp_path
    )

    async def first(call, client):
        _, page = await call("start_run", **HANDOFF)
        return page["run"], (await call("next_prompt", run=page["run"], seconds=50))[1]

    async def second(call, client):
        await call("resume_run", run=run)
        await call("answer_prompt", run=run, prompt=prompt["prompt"], text=ANSWER)
        return (await call("watch_run", run=run, seconds=50))[1]

    run, prompt = drive(server, first)
    assert prompt["phase"] == "waiting_for_answer"
    assert drive(serve(tmp_path), second)["result"]["status"] == "faster"


def test_the_command_serves_http(tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "egg_graph", "mcp", "--http", "--port", str(port), "--runs", str(tmp_path)]
    server = subprocess.Popen(command, env=environment(), cwd=tmp_path, stderr=subprocess.PIPE, text=True)

    async def story(call, client):
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        return tools, client.instructions, await call("start_run", reference="nowhere.py")

    try:
        when_up(port, server)
        tools, instructions, refused = drive(f"http://127.0.0.1:{port}/mcp", story)
    finally:
        server.terminate()
        server.wait(timeout=20)
    assert set(tools) == TOOLS and "next_prompt" in instructions
    for tool in tools.values():
        assert tool.description and all(field["description"] for field in tool.input_schema["properties"].values())
    assert refused[0] and refused[1].startswith("cannot read the reference nowhere.py")


def when_up(port, server):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and server.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    server.kill()
    pytest.fail(f"the server did not come up:\n{server.communicate()[1][-3000:]}")

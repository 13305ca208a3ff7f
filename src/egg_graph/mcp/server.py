"""The MCP server: its tools, each a few lines around the registry."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from mcp.server.mcpserver import Context as Call
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field, ValidationError, WithJsonSchema
from starlette.applications import Starlette
from typing_extensions import TypedDict

from egg_graph.agents.handoff_folder import OpenPrompt, write_answer
from egg_graph.arguments import KernelText, OptionalTaskName, ReferenceText, knob_properties
from egg_graph.context import make_context
from egg_graph.evaluator.protocol import Evaluator
from egg_graph.mcp.active_run import HANDOFF, ActiveRun
from egg_graph.mcp.lines import event_line, page_of, read_part
from egg_graph.mcp.run_registry import RunRegistry
from egg_graph.schema import BadInput, EggError
from egg_graph.team import Team
from egg_graph.tools.judge import JUDGE_KNOBS, judge_kernel
from egg_graph.tools.results import KernelResult, RunResult, run_result

LOOK = 0.1
"""Seconds between two looks at a run."""
BEAT = 2.0
"""Longest silence of a call that works [s]."""
LAST = 20
"""Most events in one answer."""

INSTRUCTIONS = """egg-graph replaces a PyTorch module by a Triton kernel that is proven to give the same answers.
start_run returns at once with the run's id; watch_run follows it, with progress notifications, and returns the verdict
and the kernel at the end. With team "handoff" you write the kernels yourself: next_prompt returns what is asked,
answer_prompt takes your answer, until watch_run says that the run has ended. evaluate_kernel judges a kernel of yours
at once. read_evidence shows what a finished run proved."""

T = TypeVar("T")


def _knobs_schema(names: tuple[str, ...] | None = None) -> WithJsonSchema:
    """The schema of an argument that takes knobs. `make_context` checks them, and tells in one line what is wrong."""
    schema = {"type": "object", "properties": knob_properties(names), "additionalProperties": False, "default": {}}
    return WithJsonSchema({**schema, "description": "Knobs; each has a default."})


RunKnobs = Annotated[dict[str, Any], _knobs_schema()]
JudgeKnobs = Annotated[dict[str, Any], _knobs_schema(JUDGE_KNOBS)]
RunId = Annotated[str, Field(description="Id of a run, as start_run returned it.")]
Seconds = Annotated[float, Field(ge=0, le=600, description="Longest time to wait for news [s].")]
TeamName = Annotated[
    str | None,
    Field(
        description='Who writes the kernels: "expert" (built in, needs no model), "handoff" (you, by next_prompt and '
        'answer_prompt), or the name of a chat model such as "openai:gpt-5". By default the server\'s own choice.'
    ),
]


class RunPage(TypedDict):
    """How far a run is."""

    run: str
    phase: str
    """`working`, `waiting_for_answer`, `stopping`, `ended`, `stopped` or `failed`."""
    events: list[str]
    """The last events, one a line."""
    attempts: int
    """Kernels that were evaluated."""
    error: str
    """Why it failed; empty otherwise."""
    result: RunResult | None
    """The end of the run; None before it."""


class PromptPage(TypedDict):
    """A prompt that waits for an answer."""

    run: str
    phase: str
    """`waiting_for_answer` where there is a prompt."""
    prompt: str
    """Id of the prompt, for answer_prompt; empty where none waits."""
    role: str
    text: str


class EggServer(MCPServer[Any]):
    """The server of one registry. It tells in one line what it refuses, or what failed."""

    def __init__(self, registry: RunRegistry) -> None:
        super().__init__("egg-graph", instructions=INSTRUCTIONS, log_level="WARNING")
        self.registry = registry

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        """See `MCPServer.call_tool`.

        Raises:
            ToolError: if the arguments are wrong or unknown, or egg-graph refuses the call.
        """
        await self._refuse_unknown(name, arguments)
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if isinstance(error.__cause__, EggError):
                raise ToolError(str(error.__cause__)) from error
            if isinstance(error.__cause__, ValidationError):
                raise ToolError(_complaint(name, error.__cause__)) from error
            raise

    async def _refuse_unknown(self, name: str, arguments: dict[str, Any]) -> None:
        """Refuse arguments that the tool does not have; the SDK drops them without a word.

        Raises:
            ToolError: one line with the arguments that there are.
        """
        known = next(
            (list(tool.input_schema["properties"]) for tool in await self.list_tools() if tool.name == name), None
        )
        unknown = [] if known is None else sorted(set(arguments) - set(known))
        if known is None or not unknown:
            return
        have = f"its arguments are {', '.join(known)}" if known else "it takes none"
        nest = '; knobs nest in knobs={…}, such as knobs={"max_attempts": 8}' if "knobs" in known else ""
        raise ToolError(f"{name}: no argument {unknown[0]!r}; {have}{nest}")

    def streamable_http_app(self, **options: Any) -> Starlette:
        """See `MCPServer.streamable_http_app`. The runs are stopped when the application ends."""
        app = super().streamable_http_app(**options)
        whole = app.router.lifespan_context

        @asynccontextmanager
        async def lifespan(of: Starlette) -> AsyncIterator[Any]:
            async with whole(of) as state:
                try:
                    yield state
                finally:
                    self.registry.close()

        app.router.lifespan_context = lifespan
        return app

    async def run_stdio_async(self) -> None:
        """See `MCPServer.run_stdio_async`. The runs are stopped when the client leaves."""
        try:
            await super().run_stdio_async()
        finally:
            self.registry.close()


def _complaint(tool: str, error: ValidationError) -> str:
    """One line: which argument is wrong, and why."""
    first = error.errors(include_url=False)[0]
    return f"{tool}: argument {'.'.join(map(str, first['loc']))}: {first['msg'].lower()}"


def build_server(
    runs_dir: str | Path = "runs",
    *,
    model: str | None = None,
    team: Team | None = None,
    evaluator: Evaluator | None = None,
) -> EggServer:
    """Build the server; `run("stdio")` serves it to one client, `streamable_http_app()` over HTTP.

    Args:
        runs_dir: the folders of the runs are made in this folder.
        model: the team where a client names none: `expert` (also None), `handoff`, or the name of a chat model.
        team: plays the roles where a client names no team.
        evaluator: judges the kernels; None for the evaluator of this machine.
    """
    registry = RunRegistry(runs_dir, model=model, team=team, evaluator=evaluator)
    server = EggServer(registry)
    _add_run_tools(server, registry)
    _add_handoff_tools(server, registry)
    _add_evidence_tools(server, registry)
    return server


def _add_run_tools(server: MCPServer[Any], registry: RunRegistry) -> None:
    @server.tool()
    def start_run(
        reference: ReferenceText,
        name: OptionalTaskName = None,
        team: TeamName = None,
        knobs: RunKnobs = {},  # noqa: B006
    ) -> RunPage:
        """Start to optimize a PyTorch module. Returns at once; watch_run follows the run."""
        run = registry.start(reference, name, team, knobs)
        return _page(run)

    @server.tool()
    def resume_run(run: RunId) -> RunPage:
        """Go on with a run that was stopped, failed, or belonged to a server that ended. Nothing is done twice."""
        return _page(registry.resume(run))

    @server.tool()
    def stop_run(run: RunId) -> RunPage:
        """Stop a run before its next step; until then its phase is "stopping". resume_run goes on with it."""
        active = _active(registry, run)
        active.stop()
        return _page(active)

    @server.tool()
    async def watch_run(call: Call, run: RunId, seconds: Seconds = 50.0) -> RunPage:
        """Follow a run until it ends, waits for an answer, or the time is over. Each event is a notification."""
        active = await asyncio.to_thread(_active, registry, run)
        await _follow(call, active, time.monotonic() + seconds)
        return await asyncio.to_thread(_page, active)


def _add_handoff_tools(server: MCPServer[Any], registry: RunRegistry) -> None:
    @server.tool()
    async def next_prompt(call: Call, run: RunId, seconds: Seconds = 50.0) -> PromptPage:
        """The next prompt of a run whose team is "handoff". Waits for it; then answer_prompt takes the answer."""
        active = await asyncio.to_thread(_active, registry, run)
        await _follow(call, active, time.monotonic() + seconds)
        return await asyncio.to_thread(_prompt_page, active)

    @server.tool()
    def answer_prompt(
        run: RunId,
        prompt: Annotated[str, Field(description="Id of the prompt, as next_prompt returned it.")],
        text: Annotated[str, Field(description="The whole answer, in the form that the prompt asks for.")],
    ) -> str:
        """Answer a prompt of a run whose team is "handoff". The run goes on at once."""
        write_answer(registry.folder(run) / HANDOFF, prompt, text)
        return f"The answer to {prompt} is taken; next_prompt waits for the next one."


def _add_evidence_tools(server: MCPServer[Any], registry: RunRegistry) -> None:
    @server.tool()
    async def evaluate_kernel(
        call: Call,
        reference: ReferenceText,
        kernel: KernelText,
        knobs: JudgeKnobs = {},  # noqa: B006
    ) -> KernelResult:
        """Judge whether a Triton kernel may replace a PyTorch module: right answers, and on a GPU its time."""
        judge = partial(judge_kernel, reference, kernel, make_context(knobs), runs_dir=registry.runs_dir)
        return await _with_beats(call, "judges the kernel", partial(judge, evaluator=registry.evaluator))

    @server.tool()
    def read_evidence(
        run: RunId,
        part: Annotated[
            Literal["verdict", "kernel", "attempts", "evaluation"],
            Field(description="What was proven; the kernel's source; one line an attempt; or all evidence as JSON."),
        ] = "verdict",
        start: Annotated[int, Field(ge=0, description="First character, for the next page of a long text.")] = 0,
    ) -> str:
        """Read what a finished run established, page by page."""
        registry.find(run)
        return page_of(read_part(registry.folder(run), part), start)

    @server.tool()
    def list_runs() -> list[str]:
        """The ids of the newest runs, the newest last; read_evidence reads them, resume_run goes on with them."""
        return sorted(path.parent.name for path in registry.runs_dir.glob("*/run.json"))[-LAST:]


def _active(registry: RunRegistry, run: str) -> ActiveRun:
    active = registry.find(run)
    if active is None:
        raise BadInput(f"no run {run!r} is at work in this server; read_evidence reads it, resume_run goes on with it")
    return active


def _page(run: ActiveRun) -> RunPage:
    assert run.folder is not None, "a run that was started has a folder"
    return RunPage(
        run=run.folder.name,
        phase=run.phase,
        events=[event_line(event) for event in run.events[-LAST:]],
        attempts=sum(event["event"] == "attempt" for event in run.events),
        error=str(run.error) if run.phase == "failed" else "",
        result=None if run.run is None else run_result(run.run.state, str(run.folder.resolve())),
    )


def _prompt_page(run: ActiveRun) -> PromptPage:
    phase = run.phase
    waiting = run.prompts() if phase == "waiting_for_answer" else []
    prompt = waiting[0] if waiting else OpenPrompt("", "", "")
    return PromptPage(run=_page(run)["run"], phase=phase, prompt=prompt.id, role=prompt.role, text=prompt.text)


async def _follow(call: Call, run: ActiveRun, until: float) -> None:
    """Notify the client of every event that no client was told yet, and of life between them, until there is news.

    News are the end of the run and a prompt that waits for an answer.
    """
    notified, last = 0, time.monotonic()
    while True:
        phase = await asyncio.to_thread(lambda: run.phase)
        while run.told < len(run.events):
            run.told, notified, last = run.told + 1, notified + 1, time.monotonic()
            await call.report_progress(notified, message=event_line(run.events[run.told - 1]))
        if phase not in ("working", "stopping") or time.monotonic() >= until:
            return
        if time.monotonic() - last >= BEAT:
            notified, last = notified + 1, time.monotonic()
            await call.report_progress(notified, message=f"{phase}, {run.told} events so far")
        await asyncio.sleep(LOOK)


async def _with_beats(call: Call, what: str, work: Callable[[], T]) -> T:
    """Do the work in a thread, with a progress notification every few seconds."""
    start, task = time.monotonic(), asyncio.ensure_future(asyncio.to_thread(work))
    while not task.done():
        await call.report_progress(time.monotonic() - start, message=f"{what}, {time.monotonic() - start:.0f} s")
        await asyncio.wait({task}, timeout=BEAT)
    return task.result()

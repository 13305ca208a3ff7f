"""How large the briefs of a run are, part by part, and those of each role and mode as sent: the page docs/briefs.md."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from egg_graph.agents import Prompts
from egg_graph.agents.analyst import ANALYST
from egg_graph.agents.chat_role import BRIEF_TOKENS, ChatRole
from egg_graph.agents.coder import CODER
from egg_graph.agents.debugger import DEBUGGER
from egg_graph.agents.filters import fence
from egg_graph.agents.parts import Prompt
from egg_graph.agents.tokens import ESTIMATOR, estimate_tokens
from egg_graph.bench.writing import markdown_table, write_results
from egg_graph.schema import Baseline, Brief, Candidate, Evaluation, KernelTask, Role, StageName, Timing, Value
from tests.agents.recorded_run import RecordedEvaluator, recorded_briefs, run

CHAT_ROLES: dict[Role, ChatRole[Any]] = {"analyst": ANALYST, "coder": CODER, "debugger": DEBUGGER}
SHOWN: tuple[tuple[Role, int], ...] = (("analyst", 1), ("coder", 0), ("coder", 3), ("coder", 1), ("debugger", 1))
"""The briefs on the page: role, and which of its calls, from 0."""
EAGER_MS = 0.014
"""PyTorch's time in the timed run [ms]."""
TIMES_BOUND = 1.4
"""How many times its bound each kernel takes there."""

PAGE = """# What a role is told

A role answers from one brief: a value of its own type (`AnalystBrief`, `SeedBrief`, `OptimizeBrief`, `RepairBrief`,
`DebuggerBrief` in `egg_graph.schema`), which the templates in `prompts/` put into words. This page is written from a
recorded run (`make docs`): a scaled softmax, judged without a GPU, whose coder follows a script; a test compares the
two. The last prompt is of the same run as it would go with a clock, with times that are made up.

- The **fixed part** (`fixed_<role>.j2`) comes first and is the same in every call of a role, so that providers that
  keep the beginning of a prompt between calls need not read it again. Behind it come the stage's system prompt
  (`system_<stage>.j2`) and the prompt of the mode.
- What happened is told as **chains**: a plan, the repairs of its kernel, and what was measured against the best kernel
  before. The best one is named; a plan that was accepted after a repair is no dead end. The same failure (kind, kernel
  and message without its numbers) is told once, with a count.
- A prompt is held to {limit} tokens (`ModelTeam(brief_tokens=...)`). Parts that a template marks with a turn
  (`{{% call part("the log", cut=20) %}}`) are left out in the order of their turns, the lowest first, until the rest
  fits, and the prompt ends with their names. Kernel, evaluation, plan and diagnosis always stay.
- Tokens are estimated by {estimator} (`egg_graph.agents.tokens`): no tokenizer is needed, and on these texts the
  estimate is 0 to 15 percent above OpenAI's o200k_base.

## Sizes

{sizes}

{briefs}
"""


class BriefSize(Value):
    """The sizes of one call's prompt, in estimated tokens."""

    role: Role
    mode: str
    stage: str
    fixed: int
    """Of the part that is the same in every call of the role."""
    stage_prompt: int
    """Of the stage's system prompt."""
    prompt: int
    """Of what follows."""
    parts: dict[str, int]
    """Of each part of `prompt`."""

    @property
    def total(self) -> int:
        return self.fixed + self.stage_prompt + self.prompt


class BriefSizes(Value):
    """The sizes of every prompt of the recorded run."""

    estimator: str
    limit: int
    """Most tokens of a prompt."""
    rows: tuple[BriefSize, ...]


def measure_briefs() -> BriefSizes:
    """Measure every prompt of the recorded run."""
    prompts = Prompts()
    return BriefSizes(
        estimator=ESTIMATOR,
        limit=BRIEF_TOKENS,
        rows=tuple(_size(prompts, role, brief) for role, brief in recorded_briefs()),
    )


def write_sizes(out: Path) -> BriefSizes:
    """Measure, and write `out` as .json and .md."""
    sizes = measure_briefs()
    write_results(out, sizes, f"# Sizes of briefs\n\n{sizes_table(sizes)}\n")
    return sizes


def _size(prompts: Prompts, role: Role, brief: Brief) -> BriefSize:
    whole, prompt = _compose(prompts, role, brief)
    fixed, system = estimate_tokens(prompts.fixed(role, brief)), estimate_tokens(whole)
    parts: dict[str, int] = {}
    for part in prompt.parts:
        parts[part.name] = parts.get(part.name, 0) + part.tokens
    return BriefSize(
        role=role,
        mode=brief.mode,
        stage=brief.stage,
        fixed=fixed,
        stage_prompt=system - fixed,
        prompt=prompt.tokens,
        parts=parts,
    )


def _compose(prompts: Prompts, role: Role, brief: Brief) -> tuple[str, Prompt]:
    return CHAT_ROLES[role].compose(prompts, brief, BRIEF_TOKENS)


def sizes_table(sizes: BriefSizes) -> str:
    """A table of the calls in order; tokens as estimated."""
    rows = [
        (str(n), row.role, row.mode, row.stage.replace("_", " "), *map(str, (row.fixed, row.stage_prompt, row.prompt)),
         str(row.total), ", ".join(f"{name} {tokens}" for name, tokens in row.parts.items()))
        for n, row in enumerate(sizes.rows, start=1)
    ]  # fmt: skip
    total, fixed = sum(row.total for row in sizes.rows), sum(row.fixed for row in sizes.rows)
    header = ("call", "role", "mode", "stage", "fixed part", "stage's", "prompt", "all", "parts of the prompt")
    told = (
        f"{len(rows)} calls, {total} tokens by {sizes.estimator}, {100 * fixed // total} percent of them in the fixed "
        "parts, which each role repeats."
    )
    return "\n".join([*markdown_table(header, rows), "", told])


class TimedEvaluator(RecordedEvaluator):
    """Says what was recorded, and times that are made up: of PyTorch, and of each right kernel by its bound."""

    def baseline(self, task: KernelTask) -> Baseline:
        return super().baseline(task).model_copy(update={"eager_ms": EAGER_MS})

    def evaluate(
        self, task: KernelTask, candidate: Candidate, *, stage: StageName | None = None, finalist: bool = False
    ) -> Evaluation:
        judged = super().evaluate(task, candidate, stage=stage, finalist=finalist)
        if not judged.usable or judged.bound is None:
            return judged
        took = TIMES_BOUND * judged.bound.milliseconds
        ratio = EAGER_MS / took
        timing = Timing(
            candidate_ms=took,
            eager_ms=EAGER_MS,
            baseline="eager",
            ratio=ratio,
            ratio_low=0.99 * ratio,
            ratio_high=1.01 * ratio,
            pairs=30,
        )
        return judged.model_copy(update={"status": "faster", "timing": timing})


def page() -> str:
    """Text of docs/briefs.md."""
    sizes, shown = measure_briefs(), Shown()
    sections = [shown.section(role, _brief_of(recorded_briefs(), role, number)) for role, number in SHOWN]
    _, timed = run(TimedEvaluator())
    sections.append(shown.section("analyst", _brief_of(timed, "analyst", -1), " of a timed run, in hardware tuning"))
    briefs = "\n\n".join(sections)
    return PAGE.format(limit=sizes.limit, estimator=ESTIMATOR, sizes=sizes_table(sizes), briefs=briefs).rstrip() + "\n"


def _brief_of(briefs: Iterable[tuple[Role, Brief]], role: Role, number: int) -> Brief:
    return [brief for other, brief in briefs if other == role][number]


class Shown:
    """The prompts that are on the page so far: what two of them begin with is shown once."""

    def __init__(self) -> None:
        self._prompts = Prompts()
        self._fixed: set[str] = set()

    def section(self, role: Role, brief: Brief, of_what: str = "") -> str:
        """A role's prompt as it is sent; its fixed part is left out where it has been shown.

        Args:
            of_what: what the heading says behind role and mode.
        """
        system, prompt = _compose(self._prompts, role, brief)
        fixed, told = self._prompts.fixed(role, brief), "The system prompt:"
        if fixed in self._fixed:
            system, told = system.removeprefix(fixed).strip(), "The system prompt, behind the fixed part shown above:"
        self._fixed.add(fixed)
        return (
            f"## The {role}, {brief.mode} mode{of_what}\n\n{told}\n\n{fence(system, 'text')}\n\n"
            f"The prompt:\n\n{fence(prompt.text, 'text')}"
        )


if __name__ == "__main__":
    print(page(), end="")

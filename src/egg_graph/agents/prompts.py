"""Render prompts from a brief. The templates are Jinja2 files in the package `egg_graph.prompts`."""

from functools import cache
from pathlib import Path

from jinja2 import ChoiceLoader, Environment, FileSystemLoader, FunctionLoader, StrictUndefined

from egg_graph.agents.filters import FILTERS
from egg_graph.agents.parts import PartList, Prompt
from egg_graph.knowledge import prompt_files, prompt_text
from egg_graph.schema import BadInput, Brief, Role


class Prompts:
    """Renders the shipped templates; a template of the same name in `folder` takes the place of a shipped one."""

    def __init__(self, folder: str | Path | None = None) -> None:
        """
        Raises:
            BadInput: if `folder` is given and does not exist.
        """
        self._environment = _shipped_templates()
        if folder is not None:
            if not Path(folder).is_dir():
                raise BadInput(f"{folder}: no such folder; give one that holds *.j2 templates")
            loaders = ChoiceLoader([FileSystemLoader(folder), FunctionLoader(_shipped)])
            self._environment = self._environment.overlay(loader=loaders)

    def fixed(self, role: Role, brief: Brief) -> str:
        """What every system prompt of a role begins with: it is the same in all calls of a run.

        So providers that keep the beginning of a prompt between calls need not read it again.
        """
        return self.render(f"fixed_{role}.j2", brief, role=role)

    def system(self, role: Role, brief: Brief) -> str:
        """The system prompt: the fixed part (`fixed_<role>.j2`), and the stage's (`system_<stage>.j2`)."""
        return f"{self.fixed(role, brief)}\n{self.render(f'system_{brief.stage}.j2', brief, role=role)}"

    def render(self, template: str, brief: Brief, **more: str) -> str:
        """Render one template file with `brief`, and further variables. All its parts are kept."""
        return self.compose(template, brief, None, **more).text

    def compose(self, template: str, brief: Brief, limit: int | None, **more: str) -> Prompt:
        """Render one template file in at most `limit` tokens: the parts that it marks as cuttable go in their order."""
        parts = PartList()
        rendered = self._environment.get_template(template).render(brief=brief, part=parts.part, **more)
        return parts.assemble(rendered, limit)


@cache
def _shipped_templates() -> Environment:
    """The shipped templates. Each is compiled once per process, however many teams there are."""
    environment = Environment(
        loader=FunctionLoader(_shipped),
        undefined=StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(FILTERS)
    for name in ("fewshot_reference", "fewshot_kernel"):
        environment.globals[name] = prompt_text(f"{name}.py.txt")
    return environment


def _shipped(name: str) -> str | None:
    return prompt_text(name) if name in prompt_files(".j2") else None

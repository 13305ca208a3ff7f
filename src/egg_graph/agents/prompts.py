"""Render prompts from a brief. The templates are Jinja2 files in the package `egg_graph.prompts`."""

from pathlib import Path

from jinja2 import BaseLoader, ChoiceLoader, Environment, FileSystemLoader, FunctionLoader, StrictUndefined

from egg_graph.agents.filters import FILTERS
from egg_graph.knowledge import prompt_files, prompt_text
from egg_graph.schema import BadInput, Brief, Role


class Prompts:
    """Renders the shipped templates; a template of the same name in `folder` takes the place of a shipped one."""

    def __init__(self, folder: str | Path | None = None) -> None:
        """
        Raises:
            BadInput: if `folder` is given and does not exist.
        """
        loaders: list[BaseLoader] = [FunctionLoader(_shipped)]
        if folder is not None:
            if not Path(folder).is_dir():
                raise BadInput(f"{folder}: no such folder; give one that holds *.j2 templates")
            loaders.insert(0, FileSystemLoader(folder))
        self._environment = Environment(
            loader=ChoiceLoader(loaders),
            undefined=StrictUndefined,
            autoescape=False,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
        )
        self._environment.filters.update(FILTERS)
        for name in ("fewshot_reference", "fewshot_kernel"):
            self._environment.globals[name] = prompt_text(f"{name}.py.txt")

    def system(self, role: Role, brief: Brief) -> str:
        """The system prompt of `brief.stage`, with the sentence about the role (`_role_<role>.j2`)."""
        return self.render(f"system_{brief.stage}.j2", brief, role=role)

    def render(self, template: str, brief: Brief, **more: str) -> str:
        """Render one template file with `brief`, and further variables."""
        return self._environment.get_template(template).render(brief=brief, **more).strip() + "\n"


def _shipped(name: str) -> str | None:
    return prompt_text(name) if name in prompt_files(".j2") else None

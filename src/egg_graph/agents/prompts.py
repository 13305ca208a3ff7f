"""Prompts as Jinja2 templates, rendered from a brief. Templates are flat files in the package `egg_graph.prompts`."""

from pathlib import Path
from typing import Any

from jinja2 import BaseLoader, ChoiceLoader, Environment, FileSystemLoader, FunctionLoader, StrictUndefined

from egg_graph.agents import filters
from egg_graph.knowledge import prompt_files, prompt_text
from egg_graph.schema import BadInput, Brief

ROLES = ("analyst", "coder", "debugger")


class Prompts:
    """Renders the prompts of every role; a template in `folder` takes the place of the shipped one of that name."""

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
        self._environment.filters.update(filters.ALL)

    def system(self, role: str, brief: Brief) -> str:
        """The system prompt of `brief.stage`, with the sentence about `role` ("analyst", "coder", "debugger")."""
        return self._render(f"system_{brief.stage}.j2", brief, role=role)

    def analyst(self, brief: Brief) -> str:
        """Code analysis, performance diagnosis, root cause, one category and plan (paper, App. E.3)."""
        return self._render("analyst.j2", brief)

    def coder(self, brief: Brief) -> str:
        """Seed (App. E.1), optimize (E.4.1, E.4.2) or repair (E.4.3), by `brief.mode`.

        Raises:
            BadInput: if the mode is no coder's, or the brief lacks what the mode needs.
        """
        needs = {
            "seed": (),
            "optimize": ("kernel", "evaluation", "analysis"),
            "repair": ("kernel", "evaluation", "diagnosis"),
        }
        if brief.mode not in needs:
            raise BadInput(f"mode {brief.mode!r}: the coder writes in seed, optimize or repair mode")
        for name in needs[brief.mode]:
            if getattr(brief, name) is None:
                raise BadInput(f"brief.{name}: missing; the coder needs it in {brief.mode} mode")
        if brief.mode != "seed":
            return self._render(f"coder_{brief.mode}.j2", brief)
        return self._render(
            "coder_seed.j2",
            brief,
            fewshot_reference=prompt_text("fewshot_reference.py.txt"),
            fewshot_kernel=prompt_text("fewshot_kernel.py.txt"),
        )

    def debugger(self, brief: Brief) -> str:
        """Error, reference and broken kernel -> critical issue and modification plan (paper, App. E.5)."""
        return self._render("debugger.j2", brief)

    def _render(self, template: str, brief: Brief, **more: Any) -> str:
        return self._environment.get_template(template).render(brief=brief, **more).strip() + "\n"


def _shipped(name: str) -> str | None:
    return prompt_text(name) if name in prompt_files(".j2") else None

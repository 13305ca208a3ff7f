"""The pages say nothing that is not there: links, commands, options, names in their Python."""

import ast
import importlib
import re

import pytest
from typer.testing import CliRunner

from egg_graph.cli import app
from tests.lab.commands import lab
from tests.paths import ROOT

PAGES = sorted([*ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md"), *ROOT.glob("*.md")])

GROUPS = ("trust", "memory")
"""Commands that have commands of their own."""


def blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def commands(text):
    """Every `egg-graph <command> ...` that stands as code: fenced, indented or between backticks."""
    fenced = "\n".join(re.findall(r"```.*?\n(.*?)```", text, re.DOTALL))
    lines = re.findall(r"^(?:\$ )?egg-graph ([a-z]+)(.*)$", fenced, re.MULTILINE)
    return [
        *lines,
        *re.findall(r"^ {4}egg-graph ([a-z]+)(.*)$", text, re.MULTILINE),
        *re.findall(r"`egg-graph ([a-z]+)([^`]*)`", text),
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
class TestPage:
    def test_links_lead_somewhere(self, page):
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if not target.startswith(("http://", "https://")):
                assert (page.parent / target).exists(), target

    def test_python_parses_and_its_names_exist(self, page):
        for block in blocks(page, "python"):
            for node in ast.walk(ast.parse(block)):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("egg_graph"):
                    module = importlib.import_module(str(node.module))
                    assert all(hasattr(module, alias.name) for alias in node.names), ast.unparse(node)

    def test_commands_and_their_options_exist(self, page):
        for command, rest in commands(page.read_text(encoding="utf-8")):
            words = [command, *re.findall(r"^ ([a-z]+)\b", rest)[: command in GROUPS]]
            shown = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "200"})
            assert shown.exit_code == 0, f"egg-graph {' '.join(words)}"
            for option in re.findall(r"(?<!\w)--[a-z-]+", rest):
                assert option in shown.output, f"egg-graph {command} {option}"

    def test_commands_of_the_laboratory_and_their_options_exist(self, page):
        for command, rest in re.findall(r"python -m tests\.lab ([a-z_-]+)([^`\n]*)", page.read_text(encoding="utf-8")):
            shown = CliRunner().invoke(lab, [command, "--help"], env={"COLUMNS": "200"})
            assert shown.exit_code == 0, f"python -m tests.lab {command}"
            for option in re.findall(r"(?<!\w)--[a-z-]+", rest):
                assert option in shown.output, f"python -m tests.lab {command} {option}"

"""`python -m tests.lab`: the laboratory's commands."""

from tests.lab.commands import lab

lab(prog_name="python -m tests.lab")

"""Drafts that several coders write side by side from one brief, until one of them goes on."""

from egg_graph.schema.answers import Usage
from egg_graph.schema.base import Value
from egg_graph.schema.candidate import Candidate
from egg_graph.schema.evaluation import Evaluation


class SideBySide(Value):
    """Drafts that are in work side by side."""

    key: str
    """Names these drafts and no others."""
    drafts: int
    """How many there are."""


class SideDraft(Value):
    """One of several drafts of one brief: what came of it so far."""

    number: int
    """From 1."""
    candidate: Candidate | None = None
    """None where nothing was written."""
    declined: str = ""
    """Why its coder wrote nothing; see `Draft.declined`."""
    withheld: str = ""
    """The budget that forbade asking a model, or asking it again; empty where none did."""
    evaluation: Evaluation | None = None
    """None while it is not judged."""
    usage: Usage = Usage()
    """What it cost, together with drafts that were dropped because they are the same program."""
    seconds: float = 0.0
    """How long the last step at it took [s]."""

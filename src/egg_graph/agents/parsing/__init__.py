"""Read a module or a JSON object from what models send. A parser returns a value or raises `Unreadable`."""

from egg_graph.agents.parsing.code import read_module
from egg_graph.agents.parsing.module import Module, mend_module
from egg_graph.agents.parsing.objects import Object, read_object
from egg_graph.agents.parsing.reply import Reply, Unreadable
from egg_graph.agents.parsing.texts import as_text, as_truth, first_text, names_in, trim_words

__all__ = [
    "Module",
    "Object",
    "Reply",
    "Unreadable",
    "as_text",
    "as_truth",
    "first_text",
    "mend_module",
    "names_in",
    "read_module",
    "read_object",
    "trim_words",
]

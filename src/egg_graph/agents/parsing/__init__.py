"""Read a module or a JSON object from what models send. A parser returns a value or raises `Unreadable`."""

from egg_graph.agents.parsing.code import read_module
from egg_graph.agents.parsing.module import Module, mend_module
from egg_graph.agents.parsing.objects import read_object
from egg_graph.agents.parsing.reply import Reply, Unreadable, trim_words

__all__ = ["Module", "Reply", "Unreadable", "mend_module", "read_module", "read_object", "trim_words"]

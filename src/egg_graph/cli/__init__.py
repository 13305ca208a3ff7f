"""The `egg-graph` command. Each command is one small file; it imports heavy libraries only when it runs.

Exit status of every command: 0 done as asked; 1 the answer is no (kernel rejected, none accepted); 2 bad usage or input
(one line on stderr, no traceback); 3 the machine failed.
"""

from egg_graph.cli.commands import app

__all__ = ["app"]

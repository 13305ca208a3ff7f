"""The `egg-graph` command. Each command is one small file; what is heavy it imports when it runs.

Exit status of every command: 0 what was asked for, 1 the honest "no" (kernel rejected, none accepted), 2 bad usage or
input (one line on stderr, no traceback), 3 the machine failed.
"""

from egg_graph.cli.commands import app

__all__ = ["app"]

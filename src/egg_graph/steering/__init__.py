"""The compiled graph as people steer it: named steps, pauses, checked edits, checkpoints, a server's runs, a tool."""

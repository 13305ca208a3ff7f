"""The nodes: what each step of the graph does. Sync on purpose, for a server runs sync nodes in threads."""

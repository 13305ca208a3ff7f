"""The nodes: what each step of the graph does. Sync on purpose: a server runs them in threads, invoke runs them plainly."""

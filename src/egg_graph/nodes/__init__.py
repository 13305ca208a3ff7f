"""What each node of the graph does. What may take long it awaits by `Call`, so that callers of both kinds run it."""

"""What each node of the graph does. The nodes are synchronous: a LangGraph server runs such nodes in threads."""

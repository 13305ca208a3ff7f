"""egg-graph as tools of agents: one that optimizes a module, one that judges a kernel."""

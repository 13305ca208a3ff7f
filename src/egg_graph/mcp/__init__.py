"""egg-graph as a server of the Model Context Protocol: coding agents start runs, answer prompts and read evidence."""

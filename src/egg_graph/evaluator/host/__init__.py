"""Processes on this host: the fork server, its children, their limits and deaths; and how a child loads a candidate."""

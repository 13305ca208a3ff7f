"""Processes on this host: the fork server, its children, how these end, and how they load a candidate."""

"""Composite ATen operators rewritten in the primitives that the playbooks fuse."""

"""Analyst, coder and debugger, played without a model."""

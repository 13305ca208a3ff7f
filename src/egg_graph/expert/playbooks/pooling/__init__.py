"""Cumulative sums and products."""

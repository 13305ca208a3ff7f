"""Attention forward as one kernel with the online softmax."""

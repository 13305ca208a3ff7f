"""Kernels generated from seeds, over the whole language, by which the guarded interpreter is held against a GPU."""

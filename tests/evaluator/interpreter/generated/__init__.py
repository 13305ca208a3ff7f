"""Kernels generated from seeds, over the whole language, by which the guarded interpreter is held against a GPU.

A further operation of the language is a function in `categories/` and a line in `catalogue.py`, and needs a new
recording: `python -m tests.lab hardware --device gpu --out docs/results/interpreter_hardware_h200`.
"""

"""Timing a candidate against PyTorch: paired calls, three clocks, and the verdict on speed."""

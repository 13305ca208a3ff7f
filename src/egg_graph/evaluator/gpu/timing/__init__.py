"""Time a candidate against PyTorch: paired blocks of calls, three clocks, and the verdict on speed."""

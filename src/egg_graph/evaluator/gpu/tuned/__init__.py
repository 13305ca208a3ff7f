"""Measure tuned PyTorch: the reference with cuDNN's search, channels-last layouts and max-autotune."""

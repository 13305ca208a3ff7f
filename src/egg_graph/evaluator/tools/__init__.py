"""NVIDIA's and PyTorch's tools on one candidate: profiler, trace, sanitizer."""

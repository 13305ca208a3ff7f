"""NVIDIA's and PyTorch's tools on one candidate: profiler, device trace and sanitizer."""

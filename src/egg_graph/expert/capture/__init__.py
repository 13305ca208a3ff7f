"""Capture a PyTorch reference as an ATen graph: `torch.export` at several shapes, merged into plain data."""

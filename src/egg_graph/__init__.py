"""egg-graph: PyTorch references in, proven Triton kernels out. Implements EGG (arXiv 2606.26758) on LangGraph."""

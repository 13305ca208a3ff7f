"""Write Triton source: expressions, tiles, kernels, wrappers and the whole module."""

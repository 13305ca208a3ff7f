"""Matrix products with a fused pointwise epilogue."""

"""Convolutions of one, two and three dimensions, plain and transposed, with their elementwise tails."""

"""Noise: one mechanism a file, exact and integer."""

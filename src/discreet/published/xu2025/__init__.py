"""Xu 2025: federated curves from a tree of noisy counts, and its range queries."""

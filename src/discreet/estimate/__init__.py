"""Estimates: from released sums to curves and numbers with error sources."""

"""Aggregation: how sums over sites are formed."""

"""Metrics: what an evaluation can report, one row each."""

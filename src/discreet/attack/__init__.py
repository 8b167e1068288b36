"""Attacks: what a release gives away, shown and measured."""

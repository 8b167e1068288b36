"""Runtimes: what drives the conversation between sites and coordinator."""

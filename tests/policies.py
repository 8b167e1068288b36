"""Policies of tests: anybody may ask about any model, unless a test says otherwise."""

from __future__ import annotations

from typing import Any

from discreet.session.policy import Policy


def open_policy(**said: Any) -> Policy:
    """Return a policy that leaves coordinators, models and rosters open."""
    allowed = {"coordinators": ("*",), "models": ("*",), "require_roster": False}
    return Policy(**{**allowed, **said})

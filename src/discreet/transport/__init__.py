"""How messages travel; the names that a transport of your own needs.

Each is loaded when it is first asked for; ``docs/your-own-transport.md`` explains them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # what _HOMES says, for type checkers and editors
    from discreet.codec.messages import MalformedMessageError
    from discreet.privacy.ledger import Ledger
    from discreet.session.coordinator import Coordinator, evaluation_of
    from discreet.session.messages import Message
    from discreet.session.policy import Policy
    from discreet.session.retrying import Lost, Retrying, Transport
    from discreet.session.site import Site
    from discreet.session.state import InFolder

_HOMES: Final = {
    "Coordinator": "session.coordinator",
    "InFolder": "session.state",
    "Ledger": "privacy.ledger",
    "Lost": "session.retrying",
    "MalformedMessageError": "codec.messages",
    "Message": "session.messages",
    "Policy": "session.policy",
    "Retrying": "session.retrying",
    "Site": "session.site",
    "Transport": "session.retrying",
    "evaluation_of": "session.coordinator",
}

__all__ = [
    "Coordinator",
    "InFolder",
    "Ledger",
    "Lost",
    "MalformedMessageError",
    "Message",
    "Policy",
    "Retrying",
    "Site",
    "Transport",
    "evaluation_of",
]


def __getattr__(name: str) -> object:
    """Load a public name, once."""
    if name not in _HOMES:
        raise AttributeError(f"module 'discreet.transport' has no attribute {name!r}")
    value: object = getattr(import_module(f"discreet.{_HOMES[name]}"), name)
    globals()[name] = value
    return value

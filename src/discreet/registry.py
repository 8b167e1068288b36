"""Registries: named kinds of things that other packages may add to.

What this package itself knows is written as ``module:name`` and imported when it is
asked for, so that listing names costs nothing and no layer imports a higher one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Generic, TypeVar, cast

from discreet.errors import PlanError
from discreet.vocabulary import did_you_mean

T = TypeVar("T")


class Registry(Generic[T]):
    """Things by name, in the order in which they were added.

    Args:
        kind: what they are, for messages.
        known: this package's own, each as ``module:name``.

    >>> numbers = Registry[float]("number", {"pi": "math:pi"})
    >>> numbers.add("two", 2.0)
    >>> numbers["pi"] > numbers["two"], list(numbers)
    (True, ['pi', 'two'])
    """

    def __init__(self, kind: str, known: Mapping[str, str] | None = None) -> None:
        self.kind = kind
        self._entries: dict[str, T | str] = dict(known or {})

    def add(self, name: str, thing: T) -> None:
        """Add something under a name that is not taken."""
        if name in self._entries:
            raise PlanError(f"there is already a {self.kind} named {name!r}")
        self._entries[name] = thing

    def __getitem__(self, name: str) -> T:
        try:
            entry = self._entries[name]
        except (KeyError, TypeError):
            near = did_you_mean(name, self._entries)
            known = ", ".join(self._entries)
            raise PlanError(f"unknown {self.kind}{near}; known are {known}") from None
        if isinstance(entry, str):
            module, _, attribute = entry.partition(":")
            entry = cast("T", getattr(import_module(module), attribute))
            self._entries[name] = entry
        return entry

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._entries)

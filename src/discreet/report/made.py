"""When a report was made and with which versions: a part of what is signed.

A report prints its day and its versions. Both are in its record, below the digest, so
that nobody can change them unnoticed, and a reader with other versions computes the same
page again.
"""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import cache
from importlib.metadata import version
from typing import Final, Self

from discreet.errors import ReleaseError

_VERSION: Final = re.compile(r"[0-9A-Za-z.+!_-]{1,40}")
"""No spaces: a record that nobody signed cannot put a sentence there."""


@cache
def _installed() -> dict[str, str]:
    return {
        "discreet": str(sys.modules["discreet"].__version__),
        "NumPy": version("numpy"),
        "SciPy": version("scipy"),
        "matplotlib": version("matplotlib"),
        "Python": platform.python_version(),
    }


@dataclass(frozen=True)
class Made:
    """The day on which a report was made, and the versions that made it."""

    on: str = ""
    """ISO 8601, UTC; empty where a result is shown without a day."""
    versions: Mapping[str, str] = field(default_factory=_installed)

    @classmethod
    def today(cls) -> Self:
        """Return today, with the versions that are installed here."""
        return cls(f"{datetime.now(UTC):%Y-%m-%d}")

    @classmethod
    def from_dict(cls, table: object) -> Self:
        """Read what ``to_dict`` wrote.

        Raises:
            ReleaseError: if it holds anything but a day and versions.
        """
        if not isinstance(table, dict) or set(table) != {"on", *_installed()}:
            raise ReleaseError("the record's day and versions were damaged")
        versions = {name: table[name] for name in _installed()}
        if not _is_day(table["on"]) or not all(map(_is_version, versions.values())):
            raise ReleaseError("the record's day and versions were damaged")
        return cls(table["on"], versions)

    def to_dict(self) -> dict[str, str]:
        """Return plain values for JSON."""
        return {"on": self.on, **self.versions}

    @property
    def discreet(self) -> str:
        """The version of this package that made it."""
        return self.versions["discreet"]

    def others(self) -> list[str]:
        """Say which of its versions are not those that are installed here."""
        return [
            f"{name} {found} instead of {_installed()[name]}"
            for name, found in self.versions.items()
            if found != _installed()[name]
        ]


def _is_day(text: object) -> bool:
    try:
        return isinstance(text, str) and text in ("", str(date.fromisoformat(text)))
    except ValueError:
        return text == ""


def _is_version(text: object) -> bool:
    return isinstance(text, str) and _VERSION.fullmatch(text) is not None

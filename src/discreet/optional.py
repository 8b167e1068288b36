"""Optional dependencies: imported when they are needed and not before."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import ModuleType
from typing import Final

from discreet.errors import MissingExtraError

_PURPOSES: Final[Mapping[str, str]] = {
    "accounting": "the tighter total of a ledger",
    "demo": "the demo",
    "flower": "evaluation in a Flower app",
    "sql": "counting in a database",
    "mysql": "counting in MariaDB",
    "spark": "counting in Spark",
    "lake": "reading a Delta table",
    "score": "scoring with a model file",
    "frames": "a table as a pandas frame",
    "mpc": (
        "computing on secret shares (SecretFlow SPU, which runs on Python 3.11 but "
        "not on later versions)"
    ),
}
"""What each extra of the package is for, unless the caller knows better."""


def load(name: str, extra: str, *, purpose: str | None = None) -> ModuleType:
    """Import a module that needs an extra, or say how to install it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise missing(extra, purpose=purpose) from error


def missing(extra: str, *, purpose: str | None = None) -> MissingExtraError:
    """Return what to say where an extra is not installed."""
    return MissingExtraError(purpose or _PURPOSES[extra], extra)

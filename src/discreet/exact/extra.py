"""The engine's modules, imported when they are needed and not before."""

from __future__ import annotations

import importlib
from types import ModuleType

from discreet.errors import MissingExtraError


def load(name: str) -> ModuleType:
    """Import a module of the ``mpc`` extra, or say how to install it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtraError(
            "computing on secret shares (SecretFlow SPU, which runs on Python 3.11 "
            "but not on later versions)",
            "mpc",
        ) from error

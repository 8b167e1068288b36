"""Text that people write (plans, policies, sessions): read without quoting it.

Somebody may name a file of scores where a plan belongs. What is said then is which
file it was and where reading stopped, never what stood there: the messages of
``tomllib`` and of decoders hold characters, keys and whole lines of the file.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Final

from discreet.errors import InputError

_PLACE: Final = re.compile(r"\(at (line \d+, column \d+|end of document)\)$")


def read_text(path: Path, what: str) -> str:
    """Read a file of UTF-8 text that should hold ``what``, such as "a plan"."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InputError(
            f"{path.name} is not UTF-8 text and so not {what}; check the order of the "
            "files, or save it as UTF-8"
        ) from None


def toml_place(error: tomllib.TOMLDecodeError) -> str:
    r"""Say where a text stopped being TOML.

    >>> try:
    ...     tomllib.loads("name = Meier\n")
    ... except tomllib.TOMLDecodeError as error:
    ...     print(toml_place(error))
    line 1, column 8
    """
    found = _PLACE.search(str(error))
    return found.group(1) if found else "a place that is not known"

"""Executables that a party compiled before, kept for sessions of equal sizes.

Compiling takes seconds of every start and depends on the public program alone. A kept
executable is taken when the program, the engine's settings, this package's code of exact areas and
the versions of compiler and engine are those that it was compiled from, and its own
digest holds. It is only ever this user's own: a folder or file that another account owns or
may write is passed over. The parties compare the executable's digest in any case, unless all of
them are this account.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Final

from discreet.mpc.program import SETTINGS, Program

MOST_KEPT: Final = 32
"""Files that are kept, the last used ones; some hundred kilobytes each."""
_COMPILERS: Final = ("spu", "jax", "jaxlib")


def own_folder() -> Path | None:
    """Return where this user's programs keep what can be made again; None if nowhere."""
    given = os.environ.get("XDG_CACHE_HOME")
    try:
        absolute = given is not None and Path(given).is_absolute()
        base = Path(given or "") if absolute else Path.home() / ".cache"
    except RuntimeError:  # an account without a home
        return None
    return base / "discreet" / "exact"


def executable_of(program: Program, folder: Path | None) -> bytes:
    """Return the executable that was kept, or compile it and keep it.

    Where the folder cannot be read or written the program is compiled, as without one.
    """
    if folder is None:
        return program.compile()
    path = folder / _name_of(program)
    with contextlib.suppress(OSError):
        digest, kept = _parts(path.read_bytes())
        if _own(folder) and _own(path) and hashlib.sha256(kept).digest() == digest:
            path.touch()
            return kept
    found = program.compile()
    with contextlib.suppress(OSError):
        _keep(path, found)
    return found


def _own(path: Path) -> bool:
    """Whether this account alone may write it."""
    found = path.lstat()
    mine = not hasattr(os, "geteuid") or found.st_uid == os.geteuid()
    return mine and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _name_of(program: Program) -> str:
    """Name everything that decides the executable."""
    place = Path(__file__).parent
    parts = [program.canonical(), SETTINGS.encode()]
    parts += [path.read_bytes() for path in sorted(place.glob("*.py"))]
    parts += [metadata.version(name).encode() for name in _COMPILERS]
    hashed = hashlib.sha256(b"discreet kept program\0")
    for part in parts:
        hashed.update(len(part).to_bytes(8, "big") + part)
    return hashed.hexdigest()


def _parts(raw: bytes) -> tuple[bytes, bytes]:
    size = hashlib.sha256().digest_size
    return raw[:size], raw[size:]


def _keep(path: Path, executable: bytes) -> None:
    """Write the file whole or not at all, and let go of the ones used least lately."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, name = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(hashlib.sha256(executable).digest() + executable)
        Path(name).replace(path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
    kept = sorted(path.parent.iterdir(), key=lambda p: p.stat().st_mtime)
    for old in kept[:-MOST_KEPT]:
        old.unlink(missing_ok=True)
